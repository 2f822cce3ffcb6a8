// Streams whose events come faster than anybody reads them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/http/burst_pacer.h"
#include "tests/unit/http/door.h"

namespace ember::http {
namespace {

using std::chrono::microseconds;
using testing::HasSubstr;

constexpr std::string_view kStreamHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

TimePoint AtMicroseconds(int64_t us) { return TimePoint(seconds(1000) + microseconds(us)); }

TEST(BurstPacer, EventsFurtherApartAreNeverHeldBack) {
  BurstPacer pacer;
  for (int64_t us : {0, 2000, 4001, 10000, 12000}) {
    EXPECT_EQ(pacer.NextRead(AtMicroseconds(us), 100), AtMicroseconds(us));
  }
}

TEST(BurstPacer, ABurstIsReadOnceATickByAllStreamsTogether) {
  BurstPacer pacer, other;
  pacer.NextRead(AtMicroseconds(100), 100);
  EXPECT_EQ(pacer.NextRead(AtMicroseconds(150), 100), AtMicroseconds(2000));
  EXPECT_EQ(pacer.NextRead(AtMicroseconds(2010), 100), AtMicroseconds(4000));
  other.NextRead(AtMicroseconds(2500), 100);
  EXPECT_EQ(other.NextRead(AtMicroseconds(3999), 100), AtMicroseconds(4000));
}

TEST(BurstPacer, AnEventThatWasWaitedForEndsTheBurst) {
  BurstPacer pacer;
  pacer.NextRead(AtMicroseconds(100), 100);
  pacer.NextRead(AtMicroseconds(150), 100);  // read at 2000
  EXPECT_EQ(pacer.NextRead(AtMicroseconds(4000), 100), AtMicroseconds(4000));
}

TEST(BurstPacer, MuchIsReadAtOnce) {
  BurstPacer pacer;
  pacer.NextRead(AtMicroseconds(100), 100);
  EXPECT_EQ(pacer.NextRead(AtMicroseconds(150), 16 << 10), AtMicroseconds(150));
}

// Each event is sent when the client has the one before. With 2 ms of rest at least for every other
// one they take 40 ms at least, however slow the machine; without any they may take 1 ms.
TEST(Burst, RestsBetweenReads) {
  constexpr int kEvents = 40;
  std::atomic<int> seen{0};
  FakeUpstream upstream([&](TestSocket& peer) {
    peer.ReadMessage();
    peer.Send(kStreamHead);
    for (int i = 0; i < kEvents; ++i) {
      peer.Send("data: " + std::to_string(i) + "\n\n");
      for (int n = seen; n <= i; n = seen) seen.wait(n);
    }
  });
  const auto door = Door::To(upstream.origin());
  TestSocket client = door->Client();
  client.Send(Post("{}"));
  std::chrono::steady_clock::time_point begun;
  for (int i = 0; i < kEvents; ++i) {
    EXPECT_TRUE(client.ReadUntil("data: " + std::to_string(i) + "\n\n"));
    if (i == 0) begun = std::chrono::steady_clock::now();
    seen = i + 1;
    seen.notify_all();
  }
  EXPECT_GE(std::chrono::steady_clock::now() - begun, (kEvents / 2 - 1) * BurstPacer::kTick);
}

TEST(Burst, WhatComesAfterItsEndIsNotWaitedForToBeMore) {
  constexpr int kEvents = 10;
  std::atomic<int> seen{0};
  FakeUpstream upstream([&](TestSocket& peer) {
    peer.ReadMessage();
    peer.Send(kStreamHead);
    for (int i = 0; i < kEvents; ++i) {
      peer.Send("data: " + std::to_string(i) + "\n\n");
      for (int n = seen; n <= i; n = seen) seen.wait(n);
    }
    LetTimePass(10 * BurstPacer::kTick);
    peer.Send("data: last\n\n");
    peer.AwaitClose();
  });
  const auto door = Door::To(upstream.origin());
  TestSocket client = door->Client();
  client.Send(Post("{}"));
  for (int i = 0; i < kEvents; ++i) {
    EXPECT_TRUE(client.ReadUntil("data: " + std::to_string(i) + "\n\n"));
    seen = i + 1;
    seen.notify_all();
  }
  EXPECT_TRUE(client.ReadUntil("data: last\n\n"));
  client.Close();
}

TEST(Burst, OfAnySizeArrivesWhole) {
  std::string all;
  FakeUpstream upstream([&](TestSocket& peer) {
    peer.ReadMessage();
    peer.Send(kStreamHead);
    for (int i = 0; i < 3000; ++i) {  // far more than what lies while the relay rests
      const std::string event = "data: " + std::string(static_cast<size_t>(i), 'x') + "\n\n";
      all += event;
      peer.Send(event);
    }
  });
  const auto door = Door::To(upstream.origin());
  TestSocket client = door->Client();
  client.Send(Post("{}"));
  EXPECT_TRUE(client.ReadMessage().body == all);
}

TEST(Burst, AnUpstreamThatBreaksOffInOneIsTold) {
  FakeUpstream upstream([&](TestSocket& peer) {
    peer.ReadMessage();
    peer.Send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 20; ++i) peer.Send("b\r\ndata: abc\n\n\r\n");
    peer.Close();
  });
  const auto door = Door::To(upstream.origin());
  TestSocket client = door->Client();
  client.Send(Post("{}"));
  const std::string body = client.ReadMessage().body;
  EXPECT_THAT(body, HasSubstr("upstream_failed"));
  EXPECT_TRUE(body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(door->Outcome().end, RelayEnd::kFailedMidway);
}

}  // namespace
}  // namespace ember::http
