// Replies at the edges of HTTP/1.1's framing: a client gets one clear reply, and nothing of it
// becomes the next one's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/http/door.h"

namespace ember::http {
namespace {

using testing::HasSubstr;
using testing::Not;

struct ReplyFramingCase {
  std::string bytes;
  std::string told;     // to each of two requests in a row
  bool reused = false;  // their connection
};

// `method`: of both requests.
void ExpectReplies(const std::vector<ReplyFramingCase>& cases, const std::string& method = "GET") {
  for (const ReplyFramingCase& c : cases) {
    FakeUpstream upstream([&](TestSocket& peer) {
      while (!peer.ReadMessage().head.empty()) {
        peer.Send(c.bytes);
        if (c.bytes.find("close") != std::string::npos) peer.ShutdownWrite();
      }
    });
    const auto door = Door::To(upstream.origin());
    TestSocket client = door->Client();
    for (int i = 0; i < 2; ++i) {
      client.Send(method + " /x HTTP/1.1\r\nHost: a\r\n\r\n");
      const WireMessage reply = client.ReadMessage(method == "HEAD");
      EXPECT_TRUE(reply.complete) << c.bytes.substr(0, 300);
      EXPECT_EQ(reply.interim, 0);
      const bool error = reply.status() >= 500;
      EXPECT_EQ(error ? "5xx" : std::to_string(reply.status()) + ":" + reply.body, c.told)
          << c.bytes.substr(0, 300);
      EXPECT_THAT(reply.head + reply.body, Not(HasSubstr("evil")));
    }
    EXPECT_EQ(upstream.accepted(), c.reused ? 1 : 2) << c.bytes.substr(0, 300);
  }
}

std::string OkReply(std::string_view rest) { return "HTTP/1.1 200 OK\r\n" + std::string(rest); }

TEST(ReplyFraming, OfFields) {
  const std::string abc = OkReply("Content-Length: 3\r\n\r\nabc");
  ExpectReplies({
      {abc, "200:abc", true},
      {OkReply("Content-Length: 3\r\nConnection: close\r\n\r\nabc"), "200:abc"},
      {"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", "200:abc"},
      {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc", "200:abc",
       true},
      {OkReply("X: close\r\n\r\nabc"), "200:abc"},
      {"HTTP/1.1 100 Continue\r\n\r\n" + abc, "200:abc", true},
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + abc, "200:abc", true},
      {"HTTP/1.1 103 Early Hints\r\nLink: evil\r\n\r\n" + abc, "200:abc", true},
      {"HTTP/1.1 102 Processing\r\nContent-Length: 4\r\n\r\n" + abc, "200:abc", true},
      {"HTTP/1.1 103 Early Hints\r\nConnection: X-Early\r\n\r\n" + abc, "200:abc", true},
      {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n" + abc,
       "5xx"},
      {"HTTP/1.1 204 No Content\r\n\r\n", "204:", true},
      {"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "204:", true},
      {"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n",
       "204:"},
      {"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "304:", true},
      {"HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nevil", "304:"},
      {"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", "205:", true},
      {OkReply("Content-Length: 3\r\n\r\nabc\r\n"), "200:abc"},
      {OkReply("Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"), "200:abc", true},
      {OkReply("Content-Length: 3, 3\r\n\r\nabc"), "200:abc", true},
      {OkReply("Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc"), "5xx"},
      {OkReply("Content-Length: 3_0\r\n\r\nabc"), "5xx"},
      {OkReply("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "5xx"},
      {OkReply("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"), "5xx"},
      {OkReply("Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"), "5xx"},
      {OkReply("Transfer-Encoding: identity\r\n\r\nevil"), "5xx"},
      {OkReply("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n"), "5xx"},
      {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "5xx"},
      {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: "
       "chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
       "5xx"},
      {"HTTP/2.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", "5xx"},
      {"HTTP/1.2 200 OK\r\nContent-Length: 3\r\n\r\nabc", "5xx"},
      {"ICY 200 OK\r\n\r\nclose", "5xx"},
      {"HTTP/1.1 0200 OK\r\nContent-Length: 3\r\n\r\nabc", "5xx"},
      {"HTTP/1.1 +20 OK\r\nContent-Length: 3\r\n\r\nabc", "5xx"},
      {"HTTP/1.1 099 OK\r\nContent-Length: 3\r\n\r\nabc", "5xx"},
      {OkReply("X: 1\nContent-Length: 3\r\n\r\nabc"), "5xx"},
      {OkReply("X: 1\rContent-Length: 3\r\n\r\nabc"), "5xx"},
      {OkReply("X y: 1\r\nContent-Length: 3\r\n\r\nabc"), "5xx"},
      {OkReply("Content-Length : 3\r\n\r\nabc"), "5xx"},
      {OkReply("Content-Length: 3\r\n 0\r\n\r\nabc"), "5xx"},
      {OkReply("X: 1\r\n Content-Length: 9\r\nContent-Length: 3\r\n\r\nabc"), "200:abc", true},
      {OkReply("Content-Length: 3\r\nConnection: Content-Length\r\n\r\nabc"), "200:abc", true},
      {"\r\n" + abc, "5xx"},
  });
}

TEST(ReplyFraming, OfChunks) {
  const auto chunked = [](std::string_view body) {
    return OkReply("Transfer-Encoding: chunked\r\n\r\n" + std::string(body));
  };
  std::string trailers;  // without an end
  for (int i = 0; i < 1024; ++i) trailers += "X-" + std::to_string(i) + ": 0123456789\r\n";
  ExpectReplies({
      {chunked("3\r\nabc\r\n0\r\n\r\n"), "200:abc", true},
      {chunked("3;a=\"b;c\";d\r\nabc\r\n0;evil\r\n\r\n"), "200:abc", true},
      {chunked("003\r\nabc\r\n000\r\nX: evil\r\nConnection: x\r\n\r\n"), "200:abc", true},
      {chunked("3\r\nabc\r\n0\r\nConnection: close\r\n\r\n"), "200:abc"},
      {chunked("0\r\n\r\n"), "200:", true},
      {chunked("0\r\n\r\nevil"), "200:"},
      {chunked(" 3\r\nabc\r\n0\r\n\r\n"), "5xx"},
      {chunked("\r\n3\r\nabc\r\n0\r\n\r\n"), "5xx"},
      {chunked("3;a=\"\n\"\r\nabc\r\n0\r\n\r\n"), "5xx"},
      {chunked("3;a=\"\r\n\"\r\nabc\r\n0\r\n\r\n"), "5xx"},
      {chunked("3\nabc\r\n0\r\n\r\n"), "5xx"},
      {chunked("3\nabc\n0\n\n"), "5xx"},
      {chunked("3;a=b\nabc"), "5xx"},
      {chunked("0\n\n"), "5xx"},
      {chunked("0\r\n\n"), "5xx"},
      {chunked("0\r\nX: 1\n\n"), "5xx"},
      {chunked("0\r\n" + trailers), "5xx"},
      {chunked("ffffffffffffffffff\r\nabc"), "5xx"},
      {chunked("3;a=\"" + std::string(200 << 10, 'x') + "\"\r\nabc\r\n0\r\n\r\n"), "5xx"},
  });
}

// Not when the time-out of a silent upstream is over.
TEST(ReplyFraming, ABrokenEndCutsAtOnceWhatHasBegun) {
  for (const char* end : {"\n0\r\n\r\n", "\r\n3\nabc\r\n", "\r\n0\n\n", "\r\n0\r\n\n"}) {
    Signal over;
    FakeUpstream upstream([&](TestSocket& peer) {
      peer.ReadMessage();
      peer.Send(OkReply("Transfer-Encoding: chunked\r\n\r\n3\r\nabc") + end);
      over.Await();
    });
    const auto door = Door::To(upstream.origin());
    TestSocket client = door->Client();
    client.Send(Post("{}"));
    const WireMessage reply = client.ReadMessage();
    EXPECT_FALSE(reply.complete) << end;
    EXPECT_TRUE(client.AwaitClose()) << end;
    EXPECT_EQ(door->Outcome().error.code(), StatusCode::kCorrupt) << end;
    over.Set();
  }
}

TEST(ReplyFraming, OfHead) {
  ExpectReplies(
      {
          {OkReply("Content-Length: 3\r\n\r\n"), "200:", true},
          {OkReply("Transfer-Encoding: chunked\r\n\r\n"), "200:", true},
          {OkReply("\r\n"), "200:", true},
          {OkReply("Content-Length: 4\r\n\r\nevil"), "200:"},
          {OkReply("Transfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n"), "200:"},
          {"HTTP/1.1 103 Early Hints\r\n\r\n" + OkReply("Content-Length: 3\r\n\r\n"), "200:", true},
      },
      "HEAD");
}

}  // namespace
}  // namespace ember::http
