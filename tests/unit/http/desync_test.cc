// Requests made so that two readers might disagree about where they end: the upstream sees exactly
// none or one, and nothing of a refused one becomes the next.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/http/door.h"

namespace ember::http {
namespace {

using boost::asio::awaitable;
using testing::HasSubstr;

constexpr char kSecond[] = "GET /second HTTP/1.1\r\nHost: a\r\n\r\n";

std::string Chunked(std::string_view body, std::string_view fields = "") {
  return "POST /first HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" + std::string(fields) +
         "\r\n" + std::string(body);
}

std::string Declared(std::string_view length_field, std::string_view body) {
  return "POST /first HTTP/1.1\r\nHost: a\r\n" + std::string(length_field) + "\r\n\r\n" +
         std::string(body);
}

int Replies(std::string_view told) {
  int n = 0;
  for (size_t at = 0; (at = told.find("\r\nDate: ", at)) != told.npos; ++at) ++n;
  return n;
}

// Counts what reaches it.
class Counting {
 public:
  Counting()
      : upstream_([this](TestSocket& peer) {
          for (;;) {
            const WireMessage request = peer.ReadMessage();
            if (request.head.empty()) return;
            {
              std::lock_guard lock(mutex_);
              heads_.push_back(request.head);
            }
            if (!request.complete) return;
            peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
          }
        }) {}
  Origin origin() const { return upstream_.origin(); }
  std::vector<std::string> heads() {
    std::lock_guard lock(mutex_);
    return heads_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> heads_;
  FakeUpstream upstream_;
};

TEST(Desync, WhatIsNotOneClearRequestReachesNobody) {
  const std::string nul("\0", 1);
  const std::string refused[] = {
      Declared("Content-Length: 6\r\nTransfer-Encoding: chunked", "0\r\n\r\nX"),
      Declared("Transfer-Encoding: chunked\r\nContent-Length: 6", "0\r\n\r\nX"),
      Declared("Content-Length: 1\r\nContent-Length: 2", "ab"),
      Declared("Content-Length: 1, 2", "ab"),
      Declared("Content-Length: 5\r\nContent-Length: 5", "abcde"),
      Declared("Content-Length: 5, 5", "abcde"),
      Declared("Content-Length: +5", "abcde"),
      Declared("Content-Length: 0x5", "abcde"),
      Declared("Content-Length: 5 5", "abcde"),
      Declared("Content-Length: 5;", "abcde"),
      Declared("Content-Length: ", "abcde"),
      Declared("Content-Length: 18446744073709551621", "abcde"),
      Declared("Content-Length\t: 5", "abcde"),
      Declared("Content-Length : 5", "abcde"),
      Declared("Content-Length: 5" + nul, "abcde"),
      Declared("X" + nul + ": 5", ""),
      Declared(" X: folded start", ""),
      Declared("Transfer-Encoding: xchunked", "0\r\n\r\n"),
      Declared("Transfer-Encoding: chunked, chunked", "0\r\n\r\n"),
      Declared("Transfer-Encoding: chunked, identity", "0\r\n\r\n"),
      Declared("Transfer-Encoding: identity", "0\r\n\r\n"),
      Declared("Transfer-Encoding: \"chunked\"", "0\r\n\r\n"),
      Declared("Transfer-Encoding:\x0b"
               "chunked",
               "0\r\n\r\n"),
      Declared("Transfer_Encoding: chunked\r\nTransfer-Encoding: x", "0\r\n\r\n"),
      Chunked("+5\r\nabcde\r\n0\r\n\r\n"),
      Chunked("0x5\r\nabcde\r\n0\r\n\r\n"),
      Chunked(" 5\r\nabcde\r\n0\r\n\r\n"),
      Chunked("-1\r\nabcde\r\n0\r\n\r\n"),
      Chunked("5\r\nabcdeXX0\r\n\r\n"),
      Chunked("5\nabcde\n0\n\n"),
      Chunked("5\rabcde\r0\r\r"),
      Chunked("fffffffffffffffff\r\nabcde\r\n0\r\n\r\n"),
      Chunked("5;" + std::string(1 << 20, 'e') + "\r\nabcde\r\n0\r\n\r\n"),
      Chunked("5;" + std::string(20000, 'e') + "\r\nabcde\r\n0\r\n\r\n"),
      Chunked("5;a=\"\n\"\r\nabcde\r\n0\r\n\r\n"),
      Chunked("5;a=\"\x01\"\r\nabcde\r\n0\r\n\r\n"),
      "GET /first HTTP/1.1\nHost: a\n\n",
      "GET /first HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
      "GET  /first HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /first\tHTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /fir st HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /first HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
      "GET /first HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n",
      "GET /first HTTP/1.1\r\nHost: a b\r\n\r\n",
      "GET /first HTTP/1.1\r\nHost: a/../b@c\r\n\r\n",
      "GET http://a@b/first HTTP/1.1\r\nHost: b\r\n\r\n",
  };
  for (const std::string& bytes : refused) {
    Counting upstream;
    const auto door = Door::To(upstream.origin());
    TestSocket client = door->Client();
    client.Send(bytes + kSecond);
    const std::string told = client.ReadAll();
    EXPECT_THAT(told.substr(0, 12), testing::MatchesRegex("HTTP/1.1 (400|501|505)"))
        << bytes.substr(0, 200);
    EXPECT_THAT(told, HasSubstr("Connection: close")) << bytes.substr(0, 200);
    EXPECT_THAT(upstream.heads(), testing::IsEmpty()) << bytes.substr(0, 200);
    EXPECT_EQ(Replies(told), 1) << told;
  }
}

TEST(Desync, WhatIsOneClearRequestIsOne) {
  const std::string good[] = {
      Declared("Content-Length:5", "abcde"),
      Declared("Content-Length:   5  ", "abcde"),
      Declared("transfer-ENCODING: Chunked", "5\r\nabcde\r\n0\r\n\r\n"),
      Chunked("5;name=value;q=\"a b\"\r\nabcde\r\n0\r\n\r\n"),
      Chunked("5;" + std::string(16000, 'e') + "\r\nabcde\r\n0\r\n\r\n"),
      Chunked("00005\r\nabcde\r\n000\r\n\r\n"),
      Chunked("5\r\nabcde\r\n0\r\nX-Trailer: 1\r\n\r\n", "Trailer: X-Trailer\r\n"),
      "\r\n\r\n" + Declared("Content-Length: 5", "abcde"),
  };
  for (const std::string& bytes : good) {
    Counting upstream;
    const auto door = Door::To(upstream.origin());
    TestSocket client = door->Client();
    client.Send(bytes + kSecond);
    EXPECT_EQ(client.ReadMessage().status(), 200) << bytes;
    EXPECT_EQ(client.ReadMessage().status(), 200) << bytes;
    const std::vector<std::string> heads = upstream.heads();
    ASSERT_EQ(heads.size(), 2u) << bytes;
    EXPECT_THAT(heads[0], testing::StartsWith("POST /first HTTP/1.1\r\n"));
    EXPECT_THAT(heads[0], HasSubstr("Content-Length: 5\r\n"));
    EXPECT_EQ(heads[0].find("X-Trailer: 1"), std::string::npos);
    EXPECT_THAT(heads[1], testing::StartsWith("GET /second HTTP/1.1\r\n"));
  }
}

// A reply given before the body was read: what comes as body is never a request.
TEST(Desync, ABodyThatSpellsARequestStaysABody) {
  std::string spelled;
  while (spelled.size() < 1u << 20) spelled += kSecond;
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  std::atomic<int> seen{0};
  Door door(
      [&](Request& request, ResponseWriter& writer) -> awaitable<void> {
        if (request.path == "/second") ++seen;
        Status sent = co_await writer.SendError(OpenAiError::ForHttpStatus(404, "no such path"));
      },
      options);
  const std::string length = std::to_string(spelled.size());
  for (const std::string& head :
       {Declared("Content-Length: " + length, ""),
        Declared("Expect: 100-continue\r\nContent-Length: " + length, ""),
        Declared("Expect: tea\r\nContent-Length: " + length, ""),
        Declared("Transfer-Encoding: gzip\r\nContent-Length: " + length, ""),
        Chunked("fffff\r\n")}) {
    TestSocket client = door.Client();
    client.Send(head + spelled);
    const std::string told = client.ReadAll();
    EXPECT_THAT(told.substr(0, 12), testing::MatchesRegex("HTTP/1.1 (4..|501)")) << head;
    EXPECT_EQ(Replies(told), 1) << head;
  }
  // Within the limit the body is read, answered, and the connection goes on.
  TestSocket client = door.Client();
  const std::string fits(kSecond);
  client.Send(Declared("Content-Length: " + std::to_string(fits.size()), fits));
  EXPECT_EQ(client.ReadMessage().status(), 404);
  EXPECT_TRUE(client.StaysSilent(std::chrono::milliseconds(50)));
  EXPECT_EQ(seen, 0);
}

TEST(Desync, AClientThatDiesWithinItsBodyReachesNobody) {
  Counting upstream;
  const auto door = Door::To(upstream.origin());
  for (const std::string& part :
       {Chunked("5\r\nab"), Chunked("5\r\nabcde\r\n"), Chunked("5\r\nabcde\r\n0\r\n"),
        Declared("Content-Length: 5", "ab"), Chunked("ffff")}) {
    TestSocket client = door->Client();
    client.Send(part);
    client.ShutdownWrite();
    EXPECT_TRUE(client.AwaitClose()) << part;
  }
  EXPECT_THAT(upstream.heads(), testing::IsEmpty());
  EXPECT_EQ(door->pool.connection_count(), 0u);
}

// The other direction: bytes behind a reply are not the next one's.
TEST(Desync, AConnectionWithMoreThanItsReplyIsNotUsedAgain) {
  for (const std::string& reply :
       {std::string(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: "
            "4\r\n\r\nevil"),
        std::string(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nHTTP/1.1 "
            "200 OK\r\nContent-Length: 4\r\n\r\nevil"),
        std::string("HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\nevil")}) {
    FakeUpstream upstream([&](TestSocket& peer) {
      peer.ReadMessage();
      peer.Send(reply);
      peer.AwaitClose();
    });
    const auto door = Door::To(upstream.origin());
    TestSocket client = door->Client();
    for (int i = 0; i < 2; ++i) {
      client.Send(Post("{}"));
      const WireMessage got = client.ReadMessage();
      EXPECT_TRUE(got.complete);
      EXPECT_EQ(got.body.find("evil"), std::string::npos) << reply;
    }
    EXPECT_EQ(upstream.accepted(), 2) << reply;
  }
}

TEST(Desync, RepliesThatAreNotOneClearReplyAreErrors) {
  for (const std::string& reply :
       {std::string("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: "
                    "chunked\r\n\r\n0\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab"),
        std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        std::string("HTTP/1.1 2000 OK\r\n\r\n"), std::string("220 smtp.example ESMTP\r\n"),
        std::string(1 << 20, 'x')}) {
    FakeUpstream upstream([&](TestSocket& peer) {
      peer.ReadMessage();
      peer.Send(reply);
      peer.ShutdownWrite();
      peer.AwaitClose();
    });
    const auto door = Door::To(upstream.origin());
    TestSocket client = door->Client();
    client.Send(Post("{}"));
    EXPECT_EQ(client.ReadMessage().status() / 100, 5) << reply.substr(0, 200);
  }
}

}  // namespace
}  // namespace ember::http
