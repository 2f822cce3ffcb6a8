// What goes on to replicas, and how it arrives: paths, bodies, headers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "router/front/served_paths.h"
#include "tests/unit/router/router_fixture.h"

namespace ember::router {
namespace {

using http::TestSocket;
using http::WireMessage;
using testing::HasSubstr;

// D5.
TEST(Paths, WhatEnginesServeIsPassedAndNeverRefusedForLackOfAPrompt) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()});
  int n = 0;
  for (const char* path : {"/v1/chat/completions",
                           "/v1/completions",
                           "/v1/responses",
                           "/v1/responses/resp_1/cancel",
                           "/v1/embeddings",
                           "/v1/rerank",
                           "/rerank",
                           "/v2/rerank",
                           "/v1/score",
                           "/score",
                           "/v1/classify",
                           "/v1/audio/transcriptions",
                           "/v1/audio/translations",
                           "/v1/audio/speech",
                           "/v1/images/generations",
                           "/v1/images/edits",
                           "/tokenize",
                           "/detokenize",
                           "/pooling",
                           "/v1/messages",
                           "/v1/messages/count_tokens"}) {
    EXPECT_EQ(router.Ask(Post("{\"input\":\"x\"}", "", path)).status(), 200) << path;
    EXPECT_THAT(replica.Request(static_cast<size_t>(n++)).head,
                testing::StartsWith("POST " + std::string(path) + " HTTP/1.1\r\n"));
  }
  for (const char* path : {"/v1/models", "/v1/models/org/model-7b", "/v1/responses/resp_1"}) {
    EXPECT_EQ(router.Ask(Get(path)).status(), 200) << path;
  }
  const std::string form =
      "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n\xff\xfb\x90" +
      std::string(3, '\0') + "\r\n--b--\r\n";
  const std::string sent =
      "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: a\r\nContent-Type: "
      "multipart/form-data; boundary=b\r\nContent-Length: " +
      std::to_string(form.size()) + "\r\n\r\n" + form;
  EXPECT_EQ(router.Ask(sent).status(), 200);
  const WireMessage seen = replica.Request(static_cast<size_t>(n) + 3);
  EXPECT_EQ(seen.body, form);
  EXPECT_EQ(seen.Field("Content-Type"), "multipart/form-data; boundary=b");
}

// D5; engines' unguarded pages.
TEST(Paths, AllElseIs404InTheShapeOfTheApi) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()}, [](ServiceOptions& o) {
    o.allowed_paths = {"/v1/files", "/custom/"};
  });
  for (const char* path : {"/pause",
                           "/update_weights",
                           "/collective_rpc",
                           "/reset_prefix_cache",
                           "/invocations",
                           "/sleep",
                           "/v1/load_lora_adapter",
                           "/v1",
                           "/v1/",
                           "/v1/chat/completions/",
                           "/v1/chat/completions/../../sleep",
                           "/v1/models/../../pause",
                           "/v1/models/%2e%2e/pause",
                           "/v1/models%2f..%2fpause",
                           "/v1/models/..%5cpause",
                           "/v1//chat/completions",
                           "//v1/chat/completions",
                           "/v1/models/",
                           "/v1/models/a//b",
                           "/v1/models/./a",
                           "/v1/responses/a/b",
                           "/v1/responses/a/cancel/x",
                           "/v1/chat/completions;x=1",
                           "/V1/models",
                           "/v1/filesystem",
                           "/v1/files/..",
                           "/custom/%2e",
                           "*"}) {
    const WireMessage reply = router.Ask(Post("{}", "", path));
    EXPECT_EQ(reply.status(), 404) << path;
    EXPECT_THAT(reply.body, HasSubstr("\"code\":\"unknown_url\"")) << path;
  }
  EXPECT_EQ(replica.requests(), 0);
  const WireMessage anthropic = router.Ask(Post("{}", "", "/v1/messages/batches"));
  EXPECT_EQ(anthropic.status(), 404);
  EXPECT_THAT(anthropic.body,
              testing::StartsWith("{\"type\":\"error\",\"error\":{\"type\":\"not_"));
  for (const char* path : {"/v1/files", "/v1/files/f-1/content", "/custom/a"}) {
    EXPECT_EQ(router.Ask(Get(path)).status(), 200) << path;
  }
  for (const char* head :
       {"TRACE /v1/models", "CONNECT /v1/models", "TRACE /custom/a", "CONNECT /custom/a"}) {
    const auto reply = router.Ask(std::string(head) + " HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_NE(reply.status(), 200) << head;
  }
  EXPECT_EQ(replica.requests(), 3);
}

TEST(Paths, APrefixIsOfWholePlainSegments) {
  for (const char* good : {"/v1/files", "/v1/files/", "/generate"}) {
    EXPECT_TRUE(ServedPaths::IsPrefix(good)) << good;
  }
  for (const char* bad : {"", "/", "v1", "/a/../b", "/a%20", "//", "/a//"}) {
    EXPECT_FALSE(ServedPaths::IsPrefix(bad)) << bad;
  }
  for (const char* own :
       {"/metrics", "/health", "/healthz/", "/ui", "/ui/app.js", "/admin", "/admin/x"}) {
    EXPECT_TRUE(ServedPaths::IsOwn(own)) << own;
  }
  EXPECT_FALSE(ServedPaths::IsOwn("/health_generate"));
}

TEST(Paths, AMethodThatMakesNoSenseIsNotPassedOn) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()},
                       [](ServiceOptions& o) { o.allowed_paths = {"/v1/files"}; });
  const auto ask = [&](const std::string& line) {
    return router.Ask(line + " HTTP/1.1\r\nHost: a\r\n\r\n");
  };
  const std::pair<const char*, const char*> refused[] = {
      {"GET /v1/chat/completions", "POST"},
      {"PUT /tokenize", "POST"},
      {"post /v1/completions", "POST"},
      {"FOO /v1/embeddings", "POST"},
      {"POST /v1/models", "GET, HEAD"},
      {"DELETE /v1/models/a/b", "GET, HEAD"},
      {"POST /v1/responses/a", "GET, HEAD, DELETE"},
      {"GET /v1/responses/a/cancel", "POST"},
      {"DELETE /v1/responses/a/input_items", "GET, HEAD"}};
  for (const auto& [line, allowed] : refused) {
    const WireMessage reply = ask(line);
    EXPECT_EQ(reply.status(), 405) << line;
    EXPECT_EQ(reply.Field("Allow"), allowed) << line;
    EXPECT_NE(reply.Field("x-ember-request-id"), "") << line;
  }
  EXPECT_EQ(replica.requests(), 0);
  for (const char* line : {"DELETE /v1/responses/a", "GET /v1/responses/a/input_items",
                           "DELETE /v1/files/a", "FOO /v1/files", "OPTIONS /v1/completions"}) {
    EXPECT_EQ(ask(line).status(), 200) << line;
  }
}

// D3, D30: what the router does not know it neither refuses nor touches.
TEST(Bodies, ToolsUnknownFieldsAndOddNumbersGoOnByteForByte) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()});
  std::string tools;
  for (int i = 0; i < 45; ++i) {
    tools += "{\"type\":\"function\",\"function\":{\"name\":\"f" + std::to_string(i) +
             "\",\"parameters\":{\"type\":\"object\"}}},";
  }
  tools += "{\"type\":\"function\",\"function\":{\"name\":\"bare\"}}";
  const std::string bodies[] = {
      "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"tools\":[" + tools + "]}",
      "{ \"stream\" : true , \"stream_options\":{\"include_usage\":true},\"n\":2,\"logprobs\":true,"
      "\"echo\":true,\"vendor_x\":{\"a\":[1.0,1e3,-0,12345678901234567890,0.1]},\"messages\":[]}",
      "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
      "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:,\"}}]},"
      "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[]}]}",
      "{\"prompt\":[1,2,3],\"z\":1,\"a\":2,\"z\":3}",
      "{\"prompt\":[\"a\",\"b\"]}",
      "{\"prompt\":[[1],[2]]}",
      "{\"messages\":42}",
      "{}",
  };
  for (size_t i = 0; i < std::size(bodies); ++i) {
    const char* path =
        bodies[i].find("prompt") == std::string::npos ? "/v1/chat/completions" : "/v1/completions";
    EXPECT_EQ(router.Ask(Post(bodies[i], "", path)).status(), 200) << bodies[i];
    EXPECT_EQ(replica.Request(i).body, bodies[i]);
  }
}

// D26.
TEST(Headers, AllButThoseOfTheConnectionGoOn) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()});
  const std::string fields =
      "Authorization: Bearer sk-1\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-"
      "b7ad6b7169203331-01\r\nX-Custom: a\r\nx-custom: b\r\nX-Empty:\r\nUser-Agent: t\r\n"
      "Accept-Encoding: gzip, br\r\nCookie: c=1\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n"
      "Keep-Alive: timeout=5\r\nTE: trailers\r\nUpgrade: h2c\r\nProxy-Authorization: p\r\n";
  EXPECT_EQ(router.Ask(Post("{}", fields)).status(), 200);
  const WireMessage seen = replica.Request();
  EXPECT_EQ(seen.Field("Authorization"), "Bearer sk-1");
  EXPECT_THAT(seen.head, HasSubstr("X-Custom: a\r\n"));
  EXPECT_THAT(seen.head, HasSubstr("x-custom: b\r\n"));
  EXPECT_EQ(seen.Field("Accept-Encoding"), "gzip, br");
  EXPECT_EQ(seen.Field("Cookie"), "c=1");
  for (const char* gone :
       {"Connection", "X-Hop", "Keep-Alive", "TE", "Upgrade", "Proxy-Authorization"}) {
    EXPECT_EQ(seen.Field(gone), "") << gone;
  }
  EXPECT_EQ(seen.Field("X-Forwarded-Proto"), "http");
}

TEST(Headers, ForwardedOnesOfAnyKindAreCarriedNotTrusted) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()});
  std::string thousand = "1.1.1.1";
  for (int i = 1; i < 1000; ++i) thousand += ", 1.1.1." + std::to_string(i % 256);
  const std::string junk = "\xff\xfe, ,,; for=\"_x\", [::1]:99999, " + std::string(5000, '9');
  size_t n = 0;
  for (const std::string& value : {std::string(), std::string(","), junk, thousand}) {
    EXPECT_EQ(router
                  .Ask(Post("{}", "X-Forwarded-For: " + value +
                                      "\r\nX-Forwarded-Proto: gopher\r\nForwarded: x\r\n"))
                  .status(),
              200);
    const std::string passed = replica.Request(n).Field("X-Forwarded-For");
    EXPECT_THAT(passed, testing::EndsWith("127.0.0.1"));
    EXPECT_THAT(passed, testing::StartsWith(value));
    EXPECT_EQ(replica.Request(n++).Field("X-Forwarded-Proto"), "http");
  }
  EXPECT_EQ(router.Ask(Post("{}", "X-Forwarded-For: a\r\nX-Forwarded-For: b\r\n")).status(), 200);
  EXPECT_EQ(replica.Request(n).Field("X-Forwarded-For"), "a, b, 127.0.0.1");
}

// As parsers of addresses want it: no port, no brackets, and IPv4 as such.
TEST(Headers, TheClientsAddressIsForwardedPlain) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()}, [](ServiceOptions& o) { o.server.host = "::"; });
  EXPECT_EQ(router.Ask(Post("{}")).status(), 200);
  EXPECT_EQ(replica.Request(0).Field("X-Forwarded-For"), "127.0.0.1");
  http::TestSocket v6(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in6 door{.sin6_family = AF_INET6,
                          .sin6_port = htons(router.service->port()),
                          .sin6_flowinfo = 0,
                          .sin6_addr = IN6ADDR_LOOPBACK_INIT,
                          .sin6_scope_id = 0};
  ASSERT_EQ(connect(v6.fd(), reinterpret_cast<const sockaddr*>(&door), sizeof door), 0);
  v6.Send(Post("{}"));
  EXPECT_EQ(v6.ReadMessage().status(), 200);
  EXPECT_EQ(replica.Request(1).Field("X-Forwarded-For"), "::1");
}

// D26: what clients do wrong says nothing of a replica.
TEST(Headers, ClientErrorsNeverCountAgainstAReplica) {
  std::atomic<int> status{400};
  FakeReplica replica([&](TestSocket& peer, const WireMessage&) {
    peer.Send(JsonReply(status, "{\"error\":{\"message\":\"no\"}}"));
  });
  RouterFixture router({replica.origin()});
  TestSocket client = router.Client();
  for (const int s : {400, 401, 404, 422, 429}) {
    status = s;
    for (int i = 0; i < 200; ++i) {
      client.Send(Post("{}"));
      ASSERT_EQ(client.ReadMessage().status(), s);
    }
  }
  EXPECT_TRUE(router.Status().replicas[0].healthy);
  status = 200;
  EXPECT_EQ(router.Ask(Post("{}")).status(), 200);
}

// D8, D9.
TEST(Replies, CodedAndBinaryBodiesKeepTheirBytesAndTheirLabels) {
  std::string zip = "PK\x03\x04";
  for (int i = 0; i < 1000; ++i) zip.push_back(static_cast<char>(i * 7));
  for (const char* coding : {"gzip", "br", "identity", ""}) {
    const std::string label =
        *coding == '\0' ? "" : "Content-Encoding: " + std::string(coding) + "\r\n";
    FakeReplica replica(Answering("HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\n" + label +
                                  "Content-Length: " + std::to_string(zip.size()) + "\r\n\r\n" +
                                  zip));
    RouterFixture router({replica.origin()});
    for (const char* accepts : {"", "Accept-Encoding: gzip, br\r\n"}) {
      const WireMessage reply = router.Ask(Post("{}", accepts, "/v1/audio/speech"));
      EXPECT_EQ(reply.body, zip);
      EXPECT_EQ(reply.Field("Content-Encoding"), coding);
      EXPECT_EQ(reply.Field("Content-Type"), "audio/mpeg");
    }
  }
}

// D16.
TEST(Stream, LineSeparatorsOfUnicodeAndZeroBytesPass) {
  const std::string events = "data: {\"delta\":\"\xE2\x80\xA8\xE2\x80\xA9\xC2\x85" +
                             std::string(1, '\0') + "\"}\n\n\xEF\xBB\xBF: c\n\ndata: [DONE]\n\n";
  FakeReplica replica(Answering(StreamReply(events)));
  RouterFixture router({replica.origin()});
  EXPECT_EQ(router.Ask(Post("{\"stream\":true}")).body, events);
}

// D15.
TEST(Stream, NothingIsAddedWhileTheEngineIsSilent) {
  http::Signal go;
  FakeReplica replica([&](TestSocket& peer, const WireMessage&) {
    go.Await();
    peer.Send(StreamReply("data: 1\n\n"));
  });
  RouterFixture router({replica.origin()});
  TestSocket client = router.Client();
  client.Send(Post("{\"stream\":true}"));
  EXPECT_TRUE(client.StaysSilent(std::chrono::milliseconds(1500)));
  go.Set();
  EXPECT_EQ(client.ReadMessage().body, "data: 1\n\n");
}

}  // namespace
}  // namespace ember::router
