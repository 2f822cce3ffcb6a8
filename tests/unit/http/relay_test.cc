// Replies pass through byte for byte, as they come (bug cases D8, D9, D11, D12, D14, D16, D26,
// D28).
#include "client/http/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/http/sse_scanner.h"
#include "tests/unit/http/door.h"

namespace ember::http {
namespace {

using testing::HasSubstr;

constexpr std::string_view kSseHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
constexpr std::string_view kLastChunk = "0\r\n\r\n";

std::string Chunk(std::string_view data) {
  std::array<char, 20> size{};
  std::snprintf(size.data(), size.size(), "%zx\r\n", data.size());
  return std::string(size.data()) + std::string(data) + "\r\n";
}

// An engine that answers each request with the next of `pieces`, each piece in a send of its own.
FakeUpstream::Script SendPieces(const std::vector<std::vector<std::string>>& replies) {
  return [replies, next = std::make_shared<std::atomic<size_t>>(0)](TestSocket& peer) {
    while (peer.ReadMessage().complete) {
      for (const std::string& piece : replies[next->fetch_add(1) % replies.size()])
        peer.Send(piece);
    }
  };
}

// D11 and D12: wherever the engine cuts a 2 KB event, the client's bytes and the observed events
// are the same.
TEST(Relay, EventStreamsAreTheSameWhereverTheEngineCutsThem) {
  std::string text;
  while (text.size() < 1900) text += "\xE4\xB8\xAD\xF0\x9F\x98\x80 e\xCC\x81 \xE2\x80\xA8 ";
  const std::string event =
      ": ping\r\n\r\ndata:{\"text\":\"" + text + "\"}\r\n\r\ndata: [DONE]\n\n";
  std::vector<std::vector<std::string>> replies;
  for (size_t cut = 1; cut < event.size(); ++cut) {
    replies.push_back({std::string(kSseHead) + Chunk(event.substr(0, cut)),
                       Chunk(event.substr(cut)) + std::string(kLastChunk)});
  }
  std::vector<std::string> bytewise = {std::string(kSseHead)};
  for (const char& c : event) bytewise.push_back(Chunk({&c, 1}));
  bytewise.emplace_back(kLastChunk);
  replies.push_back(bytewise);
  FakeUpstream upstream(SendPieces(replies));

  std::atomic<int> events{0};
  const auto door = Door::To(upstream.origin(), {}, [&](RelayOptions& options) {
    auto scanner = std::make_shared<SseScanner>([&](std::string_view) { ++events; });
    options.on_body = [scanner](std::string_view piece) { scanner->Feed(piece); };
  });
  TestSocket client = door->Client();
  for (size_t i = 0; i < replies.size(); ++i) {
    client.Send(Post("{}"));
    const WireMessage reply = client.ReadMessage();
    ASSERT_TRUE(reply.complete && reply.body == event) << "reply " << i;
    ASSERT_EQ(events.exchange(0), 2) << "reply " << i;
  }
  EXPECT_EQ(upstream.accepted(), 1);
}

TEST(Relay, BigEventsAndOddBytesPass) {
  const std::string big = "data: " + std::string(64 << 10, 'x') + "\n\n";
  std::string odd = "data: \xE2\x80\xA8 \xE2\x80\xA9 \xC2\x85 \x80\xFF\xC0";
  odd.push_back('\0');
  odd += "\n\n";
  FakeUpstream upstream(
      SendPieces({{std::string(kSseHead), Chunk(big + odd), Chunk(big), std::string(kLastChunk)}}));
  const auto door = Door::To(upstream.origin());
  TestSocket client = door->Client();
  client.Send(Post("{}"));
  EXPECT_TRUE(client.ReadMessage().body == big + odd + big);
}

TEST(Relay, EventsReachTheClientAsTheyAreMade) {
  Signal second;
  FakeUpstream upstream([&](TestSocket& peer) {
    peer.ReadMessage();
    peer.Send(kSseHead);
    peer.Send(Chunk("data: 1\n\n"));
    if (!second.Await()) return;
    peer.Send(Chunk("data: 2\n\n") + std::string(kLastChunk));
  });
  const auto door = Door::To(upstream.origin());
  TestSocket client = door->Client();
  client.Send(Post("{}"));
  EXPECT_TRUE(client.ReadUntil("data: 1\n\n"));  // the engine has not sent the second yet
  EXPECT_FALSE(second.is_set());
  second.Set();
  EXPECT_TRUE(client.ReadUntil("data: 2\n\n"));
}

TEST(Relay, StatusHeadersAndBinaryBodiesAreUntouched) {
  std::string gzip = "\x1f\x8b\x08";
  gzip.push_back('\0');
  gzip += "\xff\xfe not really";
  const std::string reply =
      "HTTP/1.1 418 Tea\r\nContent-Type: audio/mpeg\r\nContent-Encoding: gzip\r\nX-Two: "
      "a\r\nX-Two: b\r\n"
      "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nDate: Mon, 01 Jan 2024 00:00:00 "
      "GMT\r\nContent-Length: " +
      std::to_string(gzip.size()) + "\r\n\r\n" + gzip;
  FakeUpstream upstream(AnswerAlways(reply));
  const auto door = Door::To(upstream.origin(), {}, [](RelayOptions& options) {
    options.before_head = [](ResponseHead& head, const RelayOutcome& so_far) {
      head.headers.Set("x-ember-route", so_far.reused_connection ? "again" : "local");
    };
  });
  TestSocket client = door->Client();
  client.Send(Post("{}"));
  const WireMessage got = client.ReadMessage();
  EXPECT_EQ(got.status(), 418);
  EXPECT_EQ(got.body, gzip);
  EXPECT_THAT(
      got.head,
      HasSubstr("Content-Type: audio/mpeg\r\nContent-Encoding: gzip\r\nX-Two: a\r\nX-Two: b\r\n"));
  EXPECT_THAT(got.head, HasSubstr("Date: Mon, 01 Jan 2024 00:00:00 GMT\r\n"));
  EXPECT_EQ(got.Field("X-Hop"), "");
  EXPECT_EQ(got.Field("x-ember-route"), "local");
  EXPECT_EQ(got.Field("Content-Length"), std::to_string(gzip.size()));
}

TEST(Relay, AStatusLineWithoutTheSpaceBehindItsCodeIsRead) {
  const std::string reply = "HTTP/1.1 200\r\nX-A: b\r\nContent-Length: 2\r\n\r\nok";
  std::vector<std::vector<std::string>> replies = {{reply}};
  for (size_t cut = 1; cut < 20; ++cut) {
    replies.push_back({reply.substr(0, cut), reply.substr(cut)});
  }
  FakeUpstream upstream(SendPieces(replies));
  const auto door = Door::To(upstream.origin());
  TestSocket client = door->Client();
  for (size_t i = 0; i < replies.size(); ++i) {
    client.Send(Post("{}"));
    const WireMessage got = client.ReadMessage();
    EXPECT_EQ(got.status(), 200) << i;
    EXPECT_EQ(got.Field("X-A"), "b");
    EXPECT_EQ(got.body, "ok");
  }
  EXPECT_EQ(upstream.accepted(), 1);
}

TEST(Relay, BodilessAndEmptyAndUnframedReplies) {
  FakeUpstream upstream([n = std::make_shared<std::atomic<int>>(0)](TestSocket& peer) {
    static const std::string kReplies[] = {
        "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n",
        "HTTP/1.0 200 OK\r\n\r\nuntil close"};
    while (*n < 4 && peer.ReadMessage().complete) {
      const int i = (*n)++;
      peer.Send(kReplies[i]);
      if (i == 3) return;
    }
  });
  const auto door = Door::To(upstream.origin());
  TestSocket client = door->Client();
  for (const int status : {204, 200, 304}) {
    client.Send(Post("{}"));
    const WireMessage reply = client.ReadMessage();
    EXPECT_EQ(reply.status(), status);
    EXPECT_EQ(reply.body, "");
  }
  client.Send(Post("{}"));
  const WireMessage reply = client.ReadMessage();
  EXPECT_EQ(reply.Field("Transfer-Encoding"), "chunked");
  EXPECT_EQ(reply.body, "until close");
}

TEST(Relay, ForwardsTheRequestWithoutHopByHopAndWithTheUpstreamsHost) {
  Signal done;
  WireMessage seen;
  FakeUpstream upstream([&](TestSocket& peer) {
    seen = peer.ReadMessage();
    peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    done.Set();
  });
  const auto door = Door::To(upstream.origin(), {}, [](RelayOptions& options) {
    options.set_request_headers = {{"X-Added", "1"}};
    options.drop_request_headers = {"X-Private"};
  });
  TestSocket client = door->Client();
  client.Send(
      "POST /v1/x?q=%20 HTTP/1.1\r\nHost: door.example\r\nAuthorization: Bearer k\r\ntraceparent: "
      "00-1\r\nX-Private: p\r\n"
      "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nContent-Length: 9\r\n\r\n{\"b\": 1 }");
  EXPECT_EQ(client.ReadMessage().status(), 200);
  ASSERT_TRUE(done.Await());
  EXPECT_EQ(seen.head, "POST /v1/x?q=%20 HTTP/1.1\r\nHost: " + upstream.origin().ToString() +
                           "\r\nAuthorization: Bearer k\r\ntraceparent: 00-1\r\nX-Forwarded-Host: "
                           "door.example\r\nX-Added: 1\r\n"
                           "Content-Length: 9\r\n\r\n");
  EXPECT_EQ(seen.body, "{\"b\": 1 }");
}

// D14: before the first body byte the client sees nothing of a failure, so the caller may go
// elsewhere.
TEST(Relay, DeathBeforeTheFirstByteIsLeftToTheCaller) {
  for (const std::string& before_death :
       {std::string(), std::string("HTTP/1.1 20"), std::string(kSseHead)}) {
    FakeUpstream upstream([&](TestSocket& peer) {
      peer.ReadMessage();
      peer.Send(before_death);
    });
    const auto door = Door::To(upstream.origin());
    TestSocket client = door->Client();
    client.Send(Post("{}"));
    EXPECT_EQ(client.ReadMessage().status(), 502);
    const RelayOutcome outcome = door->Outcome();
    EXPECT_EQ(outcome.end, RelayEnd::kFailedBefore);
    EXPECT_EQ(outcome.error.code(), StatusCode::kUnavailable);
    EXPECT_FALSE(outcome.reply_started);
  }
}

TEST(Relay, AnEventStreamThatBreaksOffEndsWithAnErrorEvent) {
  for (const std::string& last :
       {std::string("data: 1\n\n"), std::string("data: 1\r\n\r\n"), std::string("data: 1\n"),
        std::string("data: {\"ha"), std::string("data: 1\n\ndata: 2\r"),
        std::string("data: {\"text\":\"data: [DONE]\n\n"), std::string("data: \"[DONE]\"\n\n")}) {
    FakeUpstream upstream([&](TestSocket& peer) {
      peer.ReadMessage();
      peer.Send(std::string(kSseHead) + Chunk("data: 0\n\n") + Chunk(last));
      peer.Reset();
    });
    const auto door = Door::To(upstream.origin());
    TestSocket client = door->Client();
    client.Send(Post("{}"));
    const WireMessage reply = client.ReadMessage();
    EXPECT_TRUE(reply.complete);
    std::vector<std::string> events;
    SseScanner scanner([&](std::string_view data) { events.emplace_back(data); });
    scanner.Feed(reply.body);
    ASSERT_GE(events.size(), 3u) << last;
    EXPECT_THAT(events[events.size() - 2], testing::StartsWith("{\"error\":{\"message\":"));
    EXPECT_THAT(events[events.size() - 2], HasSubstr("\"upstream_failed\""));
    EXPECT_EQ(events.back(), "[DONE]");
    EXPECT_TRUE(reply.body.starts_with("data: 0\n\n" + last));
    const RelayOutcome outcome = door->Outcome();
    EXPECT_EQ(outcome.end, RelayEnd::kFailedMidway);
    EXPECT_TRUE(outcome.reply_started);
    EXPECT_EQ(outcome.status, 200);
    client.Send(Post("{}"));  // the client's connection lives on
    EXPECT_EQ(client.ReadMessage().status(), 200);
  }
}

TEST(Relay, AnEventStreamThatBreaksOffAfterItsLastEventIsWhole) {
  for (const std::string& last :
       {std::string("data: [DONE]\n\n"), std::string("data:[DONE]\r\n\r\n"),
        std::string("data: [DONE]\n")}) {
    FakeUpstream upstream([&](TestSocket& peer) {
      peer.ReadMessage();
      peer.Send(std::string(kSseHead) + Chunk("data: 0\n\n" + last));
    });
    const auto door = Door::To(upstream.origin());
    TestSocket client = door->Client();
    client.Send(Post("{}"));
    const WireMessage reply = client.ReadMessage();
    EXPECT_TRUE(reply.complete);
    EXPECT_EQ(reply.body, "data: 0\n\n" + last);
    EXPECT_EQ(door->Outcome().end, RelayEnd::kDone);
  }
}

// Where the connection's end is the body's, nothing else tells that the engine died.
TEST(Relay, AStreamThatEndsWithItsConnectionIsCutIfThatIsWithinAnEvent) {  // D14
  const std::pair<std::string, bool> cases[] = {{"data: 1\n\ndata: {\"ha", true},
                                                {"data: 1\r\n", true},
                                                {": no event", true},
                                                {"data: 1\n\n", false},
                                                {"data: 1\n\ndata: [DONE]\n", false}};
  for (const auto& [sent, cut] : cases) {
    FakeUpstream upstream([&, sent = sent](TestSocket& peer) {
      peer.ReadMessage();
      peer.Send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + sent);
    });
    const auto door = Door::To(upstream.origin());
    TestSocket client = door->Client();
    client.Send(Post("{}"));
    const WireMessage reply = client.ReadMessage();
    EXPECT_TRUE(reply.complete);
    EXPECT_THAT(reply.body, testing::StartsWith(sent));
    EXPECT_EQ(reply.body.find("upstream_failed") != reply.body.npos, cut) << reply.body;
    EXPECT_EQ(door->Outcome().end, cut ? RelayEnd::kFailedMidway : RelayEnd::kDone);
  }
}

TEST(Relay, AnyOtherReplyThatBreaksOffIsCut) {
  for (const char* head : {"json\r\nContent-Length: 100\r\n\r\npart",
                           "json\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n",
                           "text/event-stream\r\nContent-Length: 100\r\n\r\npart",
                           "text/event-stream\r\nContent-Encoding: br\r\nTransfer-Encoding: "
                           "chunked\r\n\r\n1\r\nx\r\n"}) {
    FakeUpstream upstream([&](TestSocket& peer) {
      peer.ReadMessage();
      peer.Send(std::string("HTTP/1.1 200 OK\r\nContent-Type: ") + head);
    });
    const auto door = Door::To(upstream.origin());
    TestSocket client = door->Client();
    client.Send(Post("{}"));
    EXPECT_FALSE(client.ReadMessage().complete) << head;
    EXPECT_EQ(door->Outcome().end, RelayEnd::kFailedMidway);
  }
}

TEST(Relay, TheCallerMayRejectAReplyByItsHead) {
  FakeUpstream upstream(AnswerAlways("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"));
  const auto door = Door::To(upstream.origin(), {}, [](RelayOptions& options) {
    options.accept = [](ResponseHead& head) { return head.status != 503; };
  });
  TestSocket client = door->Client();
  client.Send(Post("{}"));
  EXPECT_EQ(client.ReadMessage().status(), 502);
  EXPECT_EQ(door->Outcome().end, RelayEnd::kRejected);
  EXPECT_EQ(door->Outcome().status, 503);
}

TEST(Relay, StopsReadingTheEngineWhileTheClientIsFull) {
  std::atomic<uint64_t> sent{0};
  constexpr uint64_t kTotal = 256u << 20;
  FakeUpstream upstream([&](TestSocket& peer) {
    peer.ReadMessage();
    peer.Send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(kTotal) + "\r\n\r\n");
    const std::string piece(1 << 20, 'x');
    while (sent < kTotal && peer.Send(piece)) sent += piece.size();
  });
  const auto door = Door::To(upstream.origin());
  TestSocket client = door->Client();
  client.Send(Post("{}"));
  ASSERT_TRUE(Eventually([&] { return sent > 0; }));
  uint64_t before = 0;  // until the kernel's buffers are full and nothing moves any more
  ASSERT_TRUE(Eventually([&] {
    before = sent;
    LetTimePass(std::chrono::milliseconds(100));
    return sent == before;
  }));
  EXPECT_LT(before, kTotal / 2);
  const WireMessage reply = client.ReadMessage();
  EXPECT_EQ(reply.body.size(), kTotal);
}

TEST(Relay, TheEngineIsNotBlamedForASlowClient) {
  std::atomic<uint64_t> sent{0};
  constexpr uint64_t kTotal = 64u << 20;
  FakeUpstream upstream([&](TestSocket& peer) {
    peer.ReadMessage();
    peer.Send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(kTotal) + "\r\n\r\n");
    const std::string piece(1 << 20, 'x');
    while (sent < kTotal && peer.Send(piece)) sent += piece.size();
  });
  const auto door = Door::To(upstream.origin(), {}, [](RelayOptions& options) {
    options.exchange.idle_timeout = milliseconds(300);
  });
  TestSocket client = door->Client();
  client.Send(Post("{}"));
  ASSERT_TRUE(Eventually([&] { return sent > 0; }));
  ASSERT_TRUE(Eventually([&] {  // the buffers are full for longer than the time-out
    const uint64_t before = sent;
    LetTimePass(std::chrono::milliseconds(700));
    return sent == before;
  }));
  EXPECT_EQ(client.ReadMessage().body.size(), kTotal);
  EXPECT_EQ(door->Outcome().end, RelayEnd::kDone);
}

TEST(Relay, TellsWhenThingsHappenedAndRunsTheHookBeforeTheEnd) {
  FakeUpstream upstream(
      AnswerAlways(std::string(kSseHead) + Chunk("data: 1\n\n") + std::string(kLastChunk)));
  Signal hook, release;
  const auto door = Door::To(upstream.origin(), {}, [&](RelayOptions& options) {
    options.before_end = [&](const RelayOutcome& so_far) -> boost::asio::awaitable<void> {
      EXPECT_EQ(so_far.body_bytes, 9u);
      hook.Set();
      while (!release.is_set()) Status s = co_await SleepFor(milliseconds(1), nullptr);
    };
  });
  TestSocket client = door->Client();
  client.Send(Post("{}"));
  EXPECT_TRUE(client.ReadUntil("data: 1\n\n"));
  ASSERT_TRUE(hook.Await());
  EXPECT_EQ(door->pool.idle_count(), 1u);
  release.Set();
  EXPECT_TRUE(client.ReadUntil("0\r\n\r\n"));
  const RelayOutcome o = door->Outcome();
  EXPECT_EQ(o.end, RelayEnd::kDone);
  EXPECT_TRUE(o.event_stream);
  EXPECT_LE(o.started_at, o.sent_at);
  EXPECT_LE(o.sent_at, o.head_at);
  EXPECT_LE(o.head_at, o.first_byte_at);
  EXPECT_LE(o.first_byte_at, o.ended_at);
}

}  // namespace
}  // namespace ember::http
