#include "client/http/server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sstream>

#include "tests/unit/http/door.h"

namespace ember::http {
namespace {

using boost::asio::awaitable;
using testing::HasSubstr;

// Answers with "<method> <target> <body>".
awaitable<void> Echo(Request& request, ResponseWriter& writer) {
  Status sent = co_await writer.Send({200, {{"Content-Type", "text/plain"}}},
                                     request.method + " " + request.target + " " + request.body);
}

std::string Get(const std::string& fields = "") {
  return "GET /x?y=1 HTTP/1.1\r\nHost: door\r\n" + fields + "\r\n";
}

TEST(HttpServer, ServesManyRequestsOnOneConnectionAndPipelined) {
  Door door(Echo);
  TestSocket client = door.Client();
  for (int i = 0; i < 3; ++i) {
    client.Send(Get());
    EXPECT_EQ(client.ReadMessage().body, "GET /x?y=1 ");
  }
  client.Send(Get() + Post("abc") + "\r\n" + Get());
  EXPECT_EQ(client.ReadMessage().body, "GET /x?y=1 ");
  EXPECT_EQ(client.ReadMessage().body, "POST /v1/chat/completions abc");
  EXPECT_EQ(client.ReadMessage().body, "GET /x?y=1 ");
  EXPECT_EQ(door.server->connection_count(), 1u);
}

TEST(HttpServer, GivesTheHandlerWhatTheClientSent) {
  Headers seen;
  std::string peer;
  Door door([&](Request& request, ResponseWriter& writer) -> awaitable<void> {
    seen = request.headers;
    peer = request.peer;
    co_await Echo(request, writer);
  });
  TestSocket client = door.Client();
  client.Send(Get("X-One: 1\r\nx-two:  two words \r\nX-One: 2\r\n"));
  EXPECT_TRUE(client.ReadMessage().complete);
  std::string text;
  seen.AppendTo(&text);
  EXPECT_EQ(text, "Host: door\r\nX-One: 1\r\nX-One: 2\r\nx-two: two words\r\n");
  EXPECT_THAT(peer, testing::StartsWith("127.0.0.1:"));
  client.Send("GET http://right.example:8/x HTTP/1.1\r\nHost: wrong.example\r\n\r\n");
  EXPECT_TRUE(client.ReadMessage().complete);
  EXPECT_EQ(seen.Get("Host"), "right.example:8");
}

TEST(HttpServer, RefusesWhatIsNotOneClearRequest) {
  Door door(Echo);
  const std::pair<std::string, int> cases[] = {
      {"hello\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: "
       "chunked\r\n\r\n0\r\n\r\n",
       400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -3\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
       "identity\r\n\r\n0\r\n\r\n",
       400},
      {"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\nContent-Length: 1\r\n\r\n", 417},
  };
  for (const auto& [bytes, status] : cases) {
    TestSocket client = door.Client();
    client.Send(bytes);
    const WireMessage reply = client.ReadMessage();
    EXPECT_EQ(reply.status(), status) << bytes;
    EXPECT_EQ(reply.Field("Connection"), "close");
    EXPECT_THAT(reply.body, HasSubstr("{\"error\":{\"message\":"));
    EXPECT_TRUE(client.AwaitClose());
  }
}

// D7.
TEST(HttpServer, StatesItsHeaderLimit) {
  Door door(Echo);
  std::string hundred;
  for (int i = 0; i < 100; ++i)
    hundred += "X-" + std::to_string(i) + ": " + std::string(300, 'v') + "\r\n";
  for (const std::string& fits : {"X-Big: " + std::string(15 << 10, 'a') + "\r\n", hundred}) {
    TestSocket client = door.Client();
    client.Send(Get(fits));
    EXPECT_EQ(client.ReadMessage().status(), 200);
  }
  // The limit is for the whole head, however it is divided and however it comes.
  for (const bool over : {false, true}) {
    const size_t left = (32u << 10) + (over ? 1 : 0) - Get(hundred + "X: \r\n").size();
    const std::string head = Get(hundred + "X: " + std::string(left, 'v') + "\r\n");
    TestSocket whole = door.Client(), pieces = door.Client();
    whole.Send(head);
    for (size_t at = 0; at < head.size(); at += 1000) pieces.Send(head.substr(at, 1000));
    EXPECT_EQ(whole.ReadMessage().status(), over ? 431 : 200);
    EXPECT_EQ(pieces.ReadMessage().status(), over ? 431 : 200);
  }
  std::string thousand;
  for (int i = 0; i < 1000; ++i) thousand += "a: b\r\n";
  TestSocket many = door.Client();
  many.Send(Get(thousand));
  EXPECT_EQ(many.ReadMessage().status(), 431);
  for (const size_t size : {33u << 10, 1u << 20}) {
    TestSocket client = door.Client();
    client.Send(Get("X-Big: " + std::string(size, 'a') + "\r\n"));
    const WireMessage reply = client.ReadMessage();
    EXPECT_EQ(reply.status(), 431);
    EXPECT_THAT(reply.body, HasSubstr("32768"));
    EXPECT_TRUE(client.AwaitClose());
  }
}

TEST(HttpServer, HandlerFailuresAre500AndTheConnectionLives) {
  Door door([](Request& request, ResponseWriter& writer) -> awaitable<void> {
    if (request.path == "/throw") throw std::runtime_error("boom");
    if (request.path == "/silent") co_return;
    co_await Echo(request, writer);
  });
  TestSocket client = door.Client();
  for (const char* path : {"/throw", "/silent"}) {
    client.Send(Post("a", path));
    const WireMessage reply = client.ReadMessage();
    EXPECT_EQ(reply.status(), 500);
    EXPECT_EQ(
        reply.body,
        R"({"error":{"message":"internal error","type":"server_error","param":null,"code":null}})");
  }
  client.Send(Post("a", "/fine"));
  EXPECT_EQ(client.ReadMessage().status(), 200);
}

TEST(HttpServer, AReplyCutMidwayIsSeenAsCut) {
  Door door([](Request& request, ResponseWriter& writer) -> awaitable<void> {
    const bool sized = request.path == "/sized";
    Status s = co_await writer.Begin({200, {}}, sized ? std::optional<uint64_t>(100) : std::nullopt,
                                     "part");
    if (request.path == "/long")
      s = co_await writer.Write("more than the one byte that was promised");
    throw std::runtime_error("boom");
  });
  for (const char* path : {"/sized", "/chunked"}) {
    TestSocket client = door.Client();
    client.Send(Post("a", path));
    const WireMessage reply = client.ReadMessage();
    EXPECT_EQ(reply.status(), 200);
    EXPECT_FALSE(reply.complete);
  }
}

TEST(HttpServer, StreamsInTheFramingTheClientKnows) {
  Door door([](Request& request, ResponseWriter& writer) -> awaitable<void> {
    const bool sized = request.path == "/sized";
    Status s =
        co_await writer.Begin({200, {}}, sized ? std::optional<uint64_t>(6) : std::nullopt, "ab");
    s = co_await writer.Write("");
    s = co_await writer.Write("cdef");
    s = co_await writer.End();
    EXPECT_TRUE(s.ok());
  });
  TestSocket client = door.Client();
  client.Send(Post("x", "/chunked"));
  WireMessage reply = client.ReadMessage();
  EXPECT_EQ(reply.Field("Transfer-Encoding"), "chunked");
  EXPECT_EQ(reply.body, "abcdef");
  client.Send(Post("x", "/sized"));
  reply = client.ReadMessage();
  EXPECT_EQ(reply.Field("Content-Length"), "6");
  EXPECT_EQ(reply.body, "abcdef");
  client.Send("HEAD /sized HTTP/1.1\r\nHost: a\r\n\r\n");
  reply = client.ReadMessage(true);
  EXPECT_EQ(reply.Field("Content-Length"), "6");
  client.Send("GET /chunked HTTP/1.0\r\n\r\n");
  reply = client.ReadMessage();
  EXPECT_EQ(reply.Field("Transfer-Encoding"), "");
  EXPECT_EQ(reply.Field("Connection"), "close");
  EXPECT_EQ(reply.body, "abcdef");
}

TEST(HttpServer, SaysBusyAtOnceBeyondItsConnectionsAndRecovers) {
  HttpServerOptions options;
  options.max_connections = 2;
  Door door(Echo, options);
  TestSocket a = door.Client();
  TestSocket b = door.Client();
  for (TestSocket* s : {&a, &b}) {
    s->Send(Get());
    EXPECT_EQ(s->ReadMessage().status(), 200);
  }
  TestSocket c = door.Client();
  const WireMessage busy = c.ReadMessage();
  EXPECT_EQ(busy.status(), 503);
  EXPECT_EQ(busy.Field("Retry-After"), "1");
  a.Close();
  EXPECT_TRUE(Eventually([&] {
    TestSocket d = door.Client();
    d.Send(Get());
    return d.ReadMessage().status() == 200;
  }));
}

// D20: descriptors run out; the clients are told, and service goes on afterwards.
TEST(HttpServer, AnswersBusyWithoutADescriptorLeft) {
  Door door(Echo);
  // Answered once and kept open, so that the server's thread opens and closes nothing by itself
  // any more: a descriptor that came free below would let a connection in.
  TestSocket warm = door.Client();
  warm.Send(Get());
  ASSERT_EQ(warm.ReadMessage().status(), 200);
  std::vector<TestSocket> clients;
  for (int i = 0; i < 3; ++i) clients.emplace_back(socket(AF_INET, SOCK_STREAM, 0));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  std::vector<int> taken = {open("/dev/null", O_RDONLY)};
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(taken.front()) + 8;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  for (int fd = 0; (fd = open("/dev/null", O_RDONLY)) >= 0;) taken.push_back(fd);
  std::vector<std::string> replies;
  for (TestSocket& client : clients) {
    if (!client.Connect(door.port())) continue;
    const WireMessage reply = client.ReadMessage();
    replies.push_back(std::to_string(reply.status()) + reply.body);
  }
  for (int fd : taken) close(fd);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(replies, testing::SizeIs(3));
  EXPECT_THAT(replies, testing::Each(testing::StartsWith(
                           R"(503{"error":{"message":"too many connections","type":"overl)")));
  TestSocket later = door.Client();
  later.Send(Get());
  EXPECT_EQ(later.ReadMessage().status(), 200);
}

TEST(HttpServer, TimesOutSlowHeadersAndIdleConnections) {
  HttpServerOptions options;
  options.header_timeout = milliseconds(150);
  options.body_timeout = milliseconds(150);
  options.idle_timeout = milliseconds(150);
  Door door(Echo, options);
  TestSocket silent = door.Client();
  TestSocket slow = door.Client();
  slow.Send("GET / HT");
  TestSocket half = door.Client();
  half.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
  TestSocket idle = door.Client();
  idle.Send(Get());
  EXPECT_EQ(idle.ReadMessage().status(), 200);
  EXPECT_EQ(slow.ReadMessage().status(), 408);
  EXPECT_EQ(half.ReadMessage().status(), 408);
  EXPECT_TRUE(silent.AwaitClose());
  EXPECT_TRUE(idle.AwaitClose());
}

// Some clients send one behind a body; a 408 would be read as the answer to what they ask next.
TEST(HttpServer, AnEmptyLineBetweenRequestsBeginsNone) {
  HttpServerOptions options;
  options.header_timeout = milliseconds(50);
  Door door(Echo, options);
  for (const bool apart : {false, true}) {
    TestSocket client = door.Client();
    client.Send(Post("abc") + (apart ? "" : "\r\n\r\n"));
    EXPECT_EQ(client.ReadMessage().status(), 200);
    if (apart) client.Send("\r\n");
    EXPECT_TRUE(client.StaysSilent(milliseconds(200)));
    client.Send(Get());
    EXPECT_EQ(client.ReadMessage().status(), 200);
  }
  options.idle_timeout = milliseconds(150);
  Door impatient(Echo, options);
  TestSocket client = impatient.Client();
  std::atomic<bool> done{false};
  std::thread dribble([&] {
    while (!done && client.Send("\r\n")) LetTimePass(milliseconds(20));
  });
  EXPECT_TRUE(client.AwaitClose()) << "nor does one buy time";
  done = true;
  dribble.join();
}

TEST(HttpServer, ListenErrorsAreClear) {
  Door door(Echo);
  HttpServerOptions options;
  options.port = door.port();
  const auto taken = HttpServer::Listen(door.loop, options, Echo);
  EXPECT_EQ(taken.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(taken.status().ToString(), HasSubstr("127.0.0.1:" + std::to_string(door.port())));
  options.host = "localhost";
  EXPECT_EQ(HttpServer::Listen(door.loop, options, Echo).status().code(), StatusCode::kInvalid);
}

TEST(HttpServer, FewDescriptorsAreToldOnlyToWhoAskedForMore) {
  std::ostringstream said;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::ostream_sink_mt>(said)));
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit few{.rlim_cur = std::min<rlim_t>(limit.rlim_max, 1000), .rlim_max = limit.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  { Door door(Echo); }
  EXPECT_EQ(said.str(), "");
  HttpServerOptions options;
  options.max_connections = 10000;
  { Door door(Echo, options); }
  EXPECT_THAT(said.str(), HasSubstr("descriptors allow"));
  setrlimit(RLIMIT_NOFILE, &limit);
  spdlog::set_default_logger(before);
}

TEST(HttpServer, StopLetsRequestsInFlightFinish) {
  Signal entered, release;
  Door door([&](Request& request, ResponseWriter& writer) -> awaitable<void> {
    entered.Set();
    while (!release.is_set() && (co_await SleepFor(milliseconds(1), &writer.gone())).ok()) {
    }
    co_await Echo(request, writer);
  });
  TestSocket idle = door.Client();
  TestSocket busy = door.Client();
  busy.Send(Post("work"));
  ASSERT_TRUE(entered.Await());
  std::thread stopper([&] { door.server->Stop(seconds(20)); });
  EXPECT_TRUE(idle.AwaitClose());
  EXPECT_LT(door.Client().fd(), 0);
  release.Set();
  const WireMessage reply = busy.ReadMessage();
  EXPECT_EQ(reply.status(), 200);
  EXPECT_EQ(reply.Field("Connection"), "close");
  stopper.join();
  EXPECT_EQ(door.server->connection_count(), 0u);
}

TEST(HttpServer, StopCancelsWhatOutlastsItsGrace) {
  Signal entered, cancelled;
  Door door([&](Request&, ResponseWriter& writer) -> awaitable<void> {
    entered.Set();
    if ((co_await SleepFor(seconds(600), &writer.gone())).code() == StatusCode::kCancelled)
      cancelled.Set();
  });
  TestSocket client = door.Client();
  client.Send(Post("work"));
  ASSERT_TRUE(entered.Await());
  EXPECT_EQ(door.server->Stop(milliseconds(20)), 1u);
  EXPECT_TRUE(cancelled.is_set());
  const WireMessage told = client.ReadMessage();
  EXPECT_EQ(told.status(), 503) << "also where the handler says nothing";
  EXPECT_EQ(told.Field("Retry-After"), "1");
  EXPECT_TRUE(client.AwaitClose());
}

}  // namespace
}  // namespace ember::http
