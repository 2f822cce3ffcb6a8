// Requests at the edges of HTTP/1.1's framing: how many there are, and where each ends, is the same
// for every reader before and behind us.
#include <gtest/gtest.h>

#include "tests/unit/http/door.h"

namespace ember::http {
namespace {

constexpr char kNextRequest[] = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n";

// Answers each request with its body.
struct EchoUpstream {
  std::atomic<size_t> requests{0};
  FakeUpstream upstream{[this](TestSocket& peer) {
    for (;;) {
      const WireMessage request = peer.ReadMessage();
      if (!request.complete) return;
      ++requests;
      peer.Send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(request.body.size()) +
                "\r\n\r\n" + request.body);
    }
  }};
};

// The codes of all replies, with their bodies where they are 200.
std::string RepliesTold(TestSocket& client) {
  std::string out;
  for (;;) {
    const WireMessage reply = client.ReadMessage();
    if (reply.head.empty()) return out;
    out += (out.empty() ? "" : " ") + std::to_string(reply.status());
    if (reply.status() == 200 && !reply.body.empty()) out += ":" + reply.body;
  }
}

struct FramingCase {
  std::string bytes;
  std::string told;  // for these and kNextRequest
};

void ExpectFraming(const std::vector<FramingCase>& cases) {
  for (const FramingCase& c : cases) {
    EchoUpstream echo;
    const auto door = Door::To(echo.upstream.origin());
    TestSocket client = door->Client();
    client.Send(c.bytes + kNextRequest);
    client.ShutdownWrite();
    EXPECT_EQ(RepliesTold(client), c.told) << c.bytes.substr(0, 300);
    size_t good = 0;
    for (size_t at = 0; (at = c.told.find("200", at)) != std::string::npos; ++at) ++good;
    EXPECT_EQ(echo.requests, good) << c.bytes.substr(0, 300);
  }
}

std::string GetWith(std::string_view fields, std::string_view target = "/x",
                    std::string_view version = "1.1") {
  return "GET " + std::string(target) + " HTTP/" + std::string(version) + "\r\n" +
         std::string(fields) + "\r\n";
}

std::string PostWith(std::string_view fields, std::string_view body) {
  return "POST /x HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n" + std::string(body);
}

std::string PostChunks(std::string_view body) {
  return PostWith("Transfer-Encoding: chunked\r\n", body);
}

TEST(Framing, OfFieldsAndLines) {
  ExpectFraming({
      {GetWith("Host: a\r\nX: 1\r\n 2\r\n"), "400"},
      {GetWith("Host: a\r\nX: 1\r\n\t\r\n"), "400"},
      {GetWith("Host: a\r\n \r\n"), "400"},
      {GetWith("Host:\r\n a\r\n"), "400"},
      {GetWith("Host: a\r\nX: 1\n2: 3\r\n"), "400"},
      {GetWith("Host: a\r\nX: 1\r2: 3\r\n"), "400"},
      {GetWith("Host: a\r\nX: 1\r\r\n"), "400"},
      {GetWith("Host: a\r\nX\x01: 1\r\n"), "400"},
      {GetWith("Host: a\r\nX: \x08\r\n"), "400"},
      {GetWith("Host: a\r\nX: \x7f\r\n"), "400"},
      {GetWith("Host: a\r\nX(: 1\r\n"), "400"},
      {GetWith("Host: a\r\nX y: 1\r\n"), "400"},
      {GetWith("Host: a\r\n\xC3\xA9: 1\r\n"), "400"},
      {"\r\n" + GetWith("Host: a\r\n"), "200 200"},
      {"\n" + GetWith("Host: a\r\n"), "400"},
      {"\r" + GetWith("Host: a\r\n"), "400"},
      {" " + GetWith("Host: a\r\n"), "400"},
      {GetWith("Host: a\r\nX: \xC3\xA9\r\n"), "200 200"},
      {GetWith("Host: a\r\nX:\r\n"), "200 200"},
      {"GET /x\r\n\r\n", "400"},
      {"GET /x HTTP/1.1 \r\nHost: a\r\n\r\n", "505"},
      {"GET /x HTTP/1.1\r\n\r\nHost: a\r\n\r\n", "400"},
      {"GET /x HTTP/2.0\r\nHost: a\r\n\r\n", "505"},
      {"GET /x HTTP/1.2\r\nHost: a\r\n\r\n", "505"},
      {"GET /x HTTP/0.9\r\nHost: a\r\n\r\n", "505"},
      {"GET /x http/1.1\r\nHost: a\r\n\r\n", "505"},
      {"GET /x HTTP/01.1\r\nHost: a\r\n\r\n", "505"},
      {"GET /x HTTP/1.10\r\nHost: a\r\n\r\n", "505"},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"},
      {"G@T /x HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
  });
}

TEST(Framing, OfHostsAndTargets) {
  ExpectFraming({
      {GetWith(""), "400"},
      {GetWith("Host: a\r\nHost: a\r\n"), "400"},
      {GetWith("Host: a\r\nHost: b\r\n"), "400"},
      {GetWith("Host: a\r\nHost: b\r\n", "/x", "1.0"), "400"},
      {GetWith("Host: a\r\nhost: b\r\n", "http://a/x"), "400"},
      {GetWith("Host: a\x01\r\n"), "400"},
      {GetWith("Host: a/x\r\n"), "400"},
      {GetWith("Host: a#b\r\n"), "400"},
      {GetWith("Host: a?b\r\n"), "400"},
      {GetWith("Host: a:b\r\n"), "400"},
      {GetWith("Host: a:80:81\r\n"), "400"},
      {GetWith("Host: a, b\r\n"), "400"},
      {GetWith("Host: a,b\r\n"), "400"},
      {GetWith("Host: [::1]:80\r\n"), "200 200"},
      {GetWith("Host: a:\r\n"), "200 200"},
      {GetWith("Host:\r\n"), "200 200"},
      {GetWith("Host: b\r\n", "http:///x"), "400"},
      {GetWith("Host: b\r\n", "http://?x"), "400"},
      {GetWith("Host: b\r\n", "http://a\\b/x"), "400"},
      {GetWith("Host: b\r\n", "http://a@b/x"), "400"},
      {GetWith("Host: b\r\n", "http://a:x/x"), "400"},
      {GetWith("Host: b\r\n", "HTTP://a/x"), "200 200"},
      {GetWith("Host: b\r\n", "/x\x01"), "400"},
      {GetWith("Host: b\r\n", "/x\x7f"), "400"},
      {GetWith("Host: b\r\n", ""), "400"},
  });
}

TEST(Framing, OfDeclaredLengths) {
  const std::string nul("\0", 1);
  for (const char* bad : {"+3",
                          "-3",
                          "3,",
                          ",3",
                          "3, 3",
                          "3 ,3",
                          "0x3",
                          "3.0",
                          "1_0",
                          "3_",
                          "_3",
                          "3e0",
                          "three",
                          "",
                          "3\t3",
                          "\"3\"",
                          "3;",
                          "99999999999999999999999",
                          "18446744073709551619",
                          "\xEF\xBC\x93"}) {
    ExpectFraming({{PostWith("Content-Length: " + std::string(bad) + "\r\n", "abc"), "400"}});
  }
  ExpectFraming({
      {PostWith("Content-Length: 18446744073709551615\r\n", "abc"), "413"},
      {PostWith("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"), "400"},
      {PostWith("Content-Length: 3\r\ncontent-length: 4\r\n", "abc"), "400"},
      {PostWith("Content-Length: 3\r\nX: y\r\nContent-Length: 0\r\n", "abc"), "400"},
      {PostWith("Content-Length: 003\r\n", "abc"), "200:abc 200"},
      {PostWith("Content-Length:\t3\t\r\n", "abc"), "200:abc 200"},
      {PostWith("Content-Length: 3\r\nConnection: Content-Length\r\n", "abc"), "200:abc 200"},
      {PostWith("Content-Length: 0\r\n", ""), "200 200"},
      {PostWith("", ""), "200 200"},
      {"GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", "200:abc 200"},
      {"HEAD /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3" + nul + "\r\n\r\nabc", "400"},
  });
}

TEST(Framing, OfTransferCodings) {
  for (const char* bad : {"chunked, chunked", "chunked,", ",chunked", "gzip, chunked",
                          "chunked, gzip", "identity", "identity, chunked", "chunked;q=1",
                          "chunked x", "chunke", "chunkedd", "x-chunked", "'chunked'", "",
                          "chunk\xC3\xA9"
                          "d"}) {
    ExpectFraming(
        {{PostWith("Transfer-Encoding: " + std::string(bad) + "\r\n", "0\r\n\r\n"), "501"}});
  }
  ExpectFraming({
      {PostWith("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
       "400"},
      {PostWith("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n"),
       "400"},
      {PostWith("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
       "501"},
      {PostWith("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", "0\r\n\r\n"), "400"},
      {PostWith("Content-Length: 5\r\nTransfer-Encoding: gzip\r\n", "0\r\n\r\n"), "400"},
      {PostWith("Transfer-Encoding: CHUNKED\t\r\nTE: trailers, deflate;q=0.5\r\n", "0\r\n\r\n"),
       "200 200"},
      {"POST /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
      {"POST /x HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       "400"},
  });
}

TEST(Framing, OfChunks) {
  for (const char* bad : {"3\r\r\nabc\r\n0\r\n\r\n",
                          "3\n\r\nabc\r\n0\r\n\r\n",
                          "3\r\nabc\n0\r\n\r\n",
                          "3\r\nabc\r0\r\n\r\n",
                          "3\r\nabcd\r\n0\r\n\r\n",
                          "\r\nabc\r\n0\r\n\r\n",
                          "3;a=\"\r\n\"\r\nabc\r\n0\r\n\r\n",
                          "3;a=\"b\rc\"\r\nabc\r\n0\r\n\r\n",
                          "3;a=\"b\nc\"\r\nabc\r\n0\r\n\r\n",
                          "3;a\rb\r\nabc\r\n0\r\n\r\n",
                          "3;a\nb\r\nabc\r\n0\r\n\r\n",

                          "3 3\r\nabc\r\n0\r\n\r\n",
                          "3,3\r\nabc\r\n0\r\n\r\n",
                          "g\r\nabc\r\n0\r\n\r\n",
                          "0x3\r\nabc\r\n0\r\n\r\n",
                          "3h\r\nabc\r\n0\r\n\r\n",
                          "10000000000000003\r\nabc\r\n0\r\n\r\n",
                          "3\r\nabc\r\n0\r\nX: 1\n\r\n",
                          "3\r\nabc\r\n0\r\nGET /y HTTP/1.1\r\nHost: a\r\n\r\n",
                          "3\r\nabc\r\n0\r\nX y: 1\r\n\r\n",
                          "3\r\nabc\r\n0\r\nContent-Length: 9\r\n\r\n",
                          "3\r\nabc\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
                          "3\r\nabc\r\n-0\r\n\r\n",
                          "3\r\nabc\r\n0\n\r\n",
                          "3\r\nabc\r\n0\r\n\n",
                          "3\nabc\n0\n\n"}) {
    ExpectFraming({{PostChunks(bad), "400"}});
  }
  ExpectFraming({
      // Waited for, within the limits of a body, for a quote that would be refused then.
      {PostChunks("3;a=\"b\r\nabc\r\n0\r\n\r\n"), ""},
      {PostChunks("3;a=\"b\r\nabc\r\n0\r\n\r\nGET /\" HTTP/1.1\r\nHost: a\r\n\r\n"), "400"},
      {PostChunks("ffffffffffffffff\r\nabc\r\n0\r\n\r\n"), "413"},
      {PostChunks("3;a;b=c;d=\"e f;g\"\r\nabc\r\n0;last\r\n\r\n"), "200:abc 200"},
      {PostChunks("3;a=\"\\\"\"\r\nabc\r\n0\r\n\r\n"), "200:abc 200"},
      {PostChunks("1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"), "200:abc 200"},
      {PostChunks("3\r\nabc\r\n0\r\nX: 1\r\nConnection: close\r\n\r\n"), "200:abc 200"},
      {PostChunks("3\r\nabc\r\n0\r\nX: 1\r\n\r\n"), "200:abc 200"},
      {PostChunks("3\r\n\r\n0\r\n0\r\n\r\n"), "200:\r\n0 200"},
  });
}

TEST(Framing, OfRequestsInARow) {
  const std::string good = GetWith("Host: a\r\n");
  ExpectFraming({
      {good + good, "200 200 200"},
      {good + GetWith("Host: a\r\nHost: a\r\n") + good, "200 400"},
      {good + PostWith("Content-Length: 3\r\nContent-Length: 3\r\n", "abc") + good, "200 400"},
      {good + PostWith("Content-Length: 3\r\n", "abc") + "X" + good, "200 200:abc 200 200"},
      {GetWith("Host: a\r\nConnection: close\r\n") + good, "200"},
      {GetWith("Host: a\r\nConnection: x, Close\r\n") + good, "200"},
      {GetWith("Host: a\r\n", "/x", "1.0") + good, "200"},
      {GetWith("Host: a\r\nConnection: Keep-Alive\r\n", "/x", "1.0") + good, "200 200 200"},
      {GetWith("Host: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: "
               "AAMAAABkAAQAAP__\r\n"),
       "200 200"},
      {GetWith("Host: a\r\nExpect: 100-continue\r\n"), "200 200"},
      {GetWith("Host: a\r\nExpect: 100-continue\r\nExpect: x\r\n"), "417"},
      {PostWith("Content-Length: 3\r\nExpect: 100-Continue\r\n", "abc"), "200:abc 200"},
      {PostWith("Content-Length: 3\r\nExpect: 100-continue, x\r\n", "abc"), "417"},
      {PostWith("Content-Length: 3\r\nExpect: \r\n", "abc"), "417"},
      {"POST /x HTTP/1.0\r\nContent-Length: 3\r\nConnection: keep-alive\r\nExpect: "
       "100-continue\r\n\r\nabc",
       "200:abc 200"},
  });
}

}  // namespace
}  // namespace ember::http
