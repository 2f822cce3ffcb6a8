// How request bodies travel (bug cases D2 and D6).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/unit/http/door.h"

namespace ember::http {
namespace {

// An engine that keeps every request it got.
class Recorder {
 public:
  Recorder()
      : upstream([this](TestSocket& peer) {
          for (;;) {
            WireMessage request = peer.ReadMessage();
            if (!request.complete) return;
            {
              std::lock_guard lock(mutex_);
              requests_.push_back(std::move(request));
            }
            peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
          }
        }) {}
  std::vector<WireMessage> requests() {
    std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  std::mutex mutex_;
  std::vector<WireMessage> requests_;

 public:
  FakeUpstream upstream;
};

constexpr std::string_view kHead =
    "POST /v1/completions HTTP/1.1\r\nHost: door\r\nTransfer-Encoding: chunked\r\n";
const std::string kBody = "{\"prompt\":\"\xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x98\x80 end\"}";

std::string Chunk(std::string_view data) {
  std::array<char, 20> size{};
  std::snprintf(size.data(), size.size(), "%zx\r\n", data.size());
  return std::string(size.data()) + std::string(data) + "\r\n";
}

TEST(Upload, ChunkedBodiesArriveOnceAndUnchangedHoweverTheyAreCut) {
  Recorder recorder;
  const auto door = Door::To(recorder.upstream.origin());
  std::vector<std::string> encodings = {Chunk(kBody) + "0\r\n\r\n"};
  std::string bytes;
  for (const char& c : kBody) bytes += Chunk({&c, 1});
  encodings.push_back(bytes + "0\r\nX-Trailer: t\r\n\r\n");
  for (size_t cut = 1; cut < kBody.size(); ++cut) {
    encodings.push_back(Chunk(kBody.substr(0, cut)) + Chunk(kBody.substr(cut)) + "0;ext=1\r\n\r\n");
  }
  TestSocket client = door->Client();
  for (const std::string& encoded : encodings) {
    client.Send(std::string(kHead) + "\r\n" + encoded);
    ASSERT_EQ(client.ReadMessage().status(), 200);
  }
  const auto requests = recorder.requests();
  ASSERT_EQ(requests.size(), encodings.size());
  for (const WireMessage& r : requests) {
    EXPECT_EQ(r.body, kBody);
    EXPECT_EQ(r.Field("Transfer-Encoding"), "");
    EXPECT_EQ(r.Field("X-Trailer"), "");
  }
}

TEST(Upload, EveryByteInAPacketOfItsOwn) {
  Recorder recorder;
  const auto door = Door::To(recorder.upstream.origin());
  TestSocket client = door->Client();
  const std::string all = std::string(kHead) + "\r\n" + Chunk(kBody.substr(0, 11)) +
                          Chunk(kBody.substr(11)) + "0\r\n\r\n";
  for (const char& c : all) client.Send({&c, 1});
  EXPECT_EQ(client.ReadMessage().status(), 200);
  ASSERT_EQ(recorder.requests().size(), 1u);
  EXPECT_EQ(recorder.requests()[0].body, kBody);
}

TEST(Upload, AnEmptyChunkedBodyMayEndByteByByte) {
  Recorder recorder;
  const auto door = Door::To(recorder.upstream.origin());
  TestSocket client = door->Client();
  client.Send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n");
  for (const char* piece : {"X", ":1", "\r", "\n", "\r", "\n"}) {
    EXPECT_TRUE(client.StaysSilent(std::chrono::milliseconds(20)));
    client.Send(piece);
  }
  EXPECT_EQ(client.ReadMessage().status(), 200);
}

TEST(Upload, ExpectContinueIsAnsweredBeforeTheBody) {
  Recorder recorder;
  const auto door = Door::To(recorder.upstream.origin());
  TestSocket client = door->Client();
  client.Send(std::string(kHead) + "Expect: 100-continue\r\n\r\n");
  ASSERT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send(Chunk(kBody) + "0\r\n\r\n");
  const WireMessage reply = client.ReadMessage();
  EXPECT_EQ(reply.status(), 200);
  EXPECT_EQ(reply.interim, 0);
  ASSERT_EQ(recorder.requests().size(), 1u);
  EXPECT_EQ(recorder.requests()[0].body, kBody);
  EXPECT_EQ(recorder.requests()[0].Field("Expect"), "");
}

TEST(Upload, SizesUpToTheLimitArriveWhole) {
  Recorder recorder;
  const auto door = Door::To(recorder.upstream.origin());
  for (const size_t size : {8u << 10, 128u << 10, 1u << 20, 8u << 20, 64u << 20}) {
    std::string body(size, '\0');
    for (size_t i = 0; i < size; ++i) body[i] = static_cast<char>((i * 2654435761u) >> 13);
    TestSocket client = door->Client();
    client.Send(Post(body));
    ASSERT_EQ(client.ReadMessage().status(), 200) << size;
    ASSERT_TRUE(recorder.requests().back().body == body) << size;
  }
  std::string body(5 << 20, 'x');
  TestSocket client = door->Client();
  client.Send(std::string(kHead) + "\r\n" + Chunk(body) + "0\r\n\r\n");
  ASSERT_EQ(client.ReadMessage().status(), 200);
  EXPECT_TRUE(recorder.requests().back().body == body);
}

TEST(Upload, OneByteOverTheLimitIsRefusedUnread) {
  Recorder recorder;
  const auto door = Door::To(recorder.upstream.origin());
  const size_t over = (64u << 20) + 1;
  for (const char* expect : {"", "Expect: 100-continue\r\n"}) {
    TestSocket client = door->Client();
    client.Send("POST / HTTP/1.1\r\nHost: a\r\n" + std::string(expect) +
                "Content-Length: " + std::to_string(over) + "\r\n\r\n");
    EXPECT_EQ(client.ReadMessage().status(), 413);  // though no byte of the body was sent
  }
  TestSocket eager = door->Client();  // sends all before it reads
  eager.Send(Post(std::string(over, 'x')));
  EXPECT_EQ(eager.ReadMessage().status(), 413);
  EXPECT_TRUE(recorder.requests().empty());
}

TEST(Upload, AChunkedBodyIsCutOffAtTheLimit) {
  Recorder recorder;
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  const auto door = Door::To(recorder.upstream.origin(), options);
  TestSocket fits = door->Client();
  fits.Send(std::string(kHead) + "\r\n" + Chunk(std::string(1000, 'a')) + "0\r\n\r\n");
  EXPECT_EQ(fits.ReadMessage().status(), 200);
  TestSocket over = door->Client();
  over.Send(std::string(kHead) + "\r\n" + Chunk(std::string(1000, 'a')) + Chunk("b"));
  EXPECT_EQ(over.ReadMessage().status(), 413);
  TestSocket declared = door->Client();
  declared.Send(std::string(kHead) + "\r\nffffffffffffffff\r\n");
  EXPECT_EQ(declared.ReadMessage().status(), 413) << "though nothing of it came";
  TestSocket second = door->Client();
  second.Send(std::string(kHead) + "\r\n" + Chunk(std::string(600, 'a')));
  second.Send("191\r\n");
  EXPECT_EQ(second.ReadMessage().status(), 413);
  EXPECT_EQ(recorder.requests().size(), 1u);
}

TEST(Upload, AllBodiesTogetherAreBounded) {
  Recorder recorder;
  HttpServerOptions options;
  options.max_buffered_bytes = 100 << 10;
  const auto door = Door::To(recorder.upstream.origin(), options);
  TestSocket holder = door->Client();
  holder.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 80000\r\n\r\n" +
              std::string(70000, 'x'));
  ASSERT_TRUE(Eventually([&] { return door->server->buffered_bytes() >= 70000; }));
  TestSocket refused = door->Client();
  refused.Send(Post(std::string(60000, 'y')));
  const WireMessage busy = refused.ReadMessage();
  EXPECT_EQ(busy.status(), 503);
  EXPECT_EQ(busy.Field("Retry-After"), "1");
  holder.Send(std::string(10000, 'x'));
  EXPECT_EQ(holder.ReadMessage().status(), 200);
  EXPECT_TRUE(Eventually([&] {  // its share comes back once its handler is done
    TestSocket other = door->Client();
    other.Send(Post(std::string(60000, 'y')));
    return other.ReadMessage().status() == 200;
  }));
}

// Whoever declares much and sends little holds little of what all bodies may have together.
TEST(Upload, SlowBodiesLeaveRoomForOthers) {
  Recorder recorder;
  HttpServerOptions options;
  options.max_buffered_bytes = 16u << 20;
  const auto door = Door::To(recorder.upstream.origin(), options);
  std::vector<TestSocket> slow;
  for (int i = 0; i < 200; ++i) {
    slow.push_back(door->Client());
    slow.back().Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000000\r\n\r\nx");
  }
  ASSERT_TRUE(Eventually([&] { return door->server->buffered_bytes() >= 200u * (40 << 10); }));
  TestSocket other = door->Client();
  other.Send(Post(std::string(1 << 20, 'y')));
  EXPECT_EQ(other.ReadMessage().status(), 200);
}

// However soon the next byte comes: the whole has its time, too.
TEST(Upload, AByteNowAndThenIsNoBody) {
  FakeUpstream upstream(AnswerAlways("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  HttpServerOptions options;
  options.body_timeout = milliseconds(300);
  const auto door = Door::To(upstream.origin(), options);
  TestSocket client = door->Client();
  client.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60\r\n\r\n");
  for (int i = 0; i < 60 && client.StaysSilent(milliseconds(50)); ++i) client.Send("x");
  EXPECT_EQ(client.ReadMessage().status(), 408);
  EXPECT_EQ(upstream.accepted(), 0);
}

}  // namespace
}  // namespace ember::http
