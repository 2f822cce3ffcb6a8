#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include "client/http/cancellation.h"
#include "client/http/headers.h"
#include "client/http/json_writer.h"
#include "client/http/openai_error.h"
#include "client/http/origin.h"
#include "client/http/request.h"

namespace ember::http {
namespace {

std::string Text(const Headers& h) {
  std::string out;
  h.AppendTo(&out);
  return out;
}

TEST(Headers, KeepsAllInOrderAndComparesWithoutCase) {
  Headers h{{"X-A", "1"}, {"x-b", "2"}, {"x-a", "3"}};
  EXPECT_EQ(h.Get("X-a"), "1");
  EXPECT_EQ(Text(h), "X-A: 1\r\nx-b: 2\r\nx-a: 3\r\n");
  h.Set("x-A", "9");
  EXPECT_EQ(Text(h), "X-A: 9\r\nx-b: 2\r\n");
}

TEST(Headers, DropsHopByHopAndWhatConnectionNames) {
  Headers h{{"Connection", "close, X-Mine"},
            {"x-mine", "1"},
            {"TE", "trailers"},
            {"Authorization", "Bearer k"}};
  h.RemoveHopByHop();
  EXPECT_EQ(Text(h), "Authorization: Bearer k\r\n");
}

// Of a head that is as long as heads may be.
TEST(Headers, ManyNamesInConnectionHoldNobodyUp) {
  std::string names;
  Headers h;
  for (int i = 0; i < 16'000; ++i) {
    names += "a" + std::to_string(100'000 + i) + ",";
    h.Add("b" + std::to_string(100'000 + i), "1");
  }
  h.Add("A100007", "1");
  h.Add("Connection", names);
  const auto begun = std::chrono::steady_clock::now();
  h.RemoveHopByHop();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(500));
  EXPECT_FALSE(h.Has("a100007"));
  EXPECT_TRUE(h.Has("b115999"));
}

TEST(Headers, NeverWritesAFieldThatBreaksTheFraming) {
  const Headers h{{"A", "x\r\nEvil: 1"}, {"B\r\n", "x"}, {"", "x"}, {"C", "caf\xC3\xA9"}};
  EXPECT_EQ(Text(h), "C: caf\xC3\xA9\r\n");
}

TEST(Request, SplitsAndDecodesTheTarget) {
  Request r;
  r.SetTarget("/v1/models?a=1&b=x%20y+z&a=2&flag&bad=%zz");
  EXPECT_EQ(r.path, "/v1/models");
  EXPECT_EQ(r.QueryParam("a"), "1");
  EXPECT_EQ(r.QueryParam("b"), "x y z");
  EXPECT_EQ(r.QueryParam("flag"), "");
  EXPECT_EQ(r.QueryParam("bad"), "%zz");
  EXPECT_EQ(r.QueryParam("none"), std::nullopt);
  r.SetTarget("http://door:80/v1/x?y=1");
  EXPECT_EQ(HostOfTarget("http://door:80/v1/x?y=1"), "door:80");
  EXPECT_EQ(HostOfTarget("HTTPS://door?y=1"), "door");
  EXPECT_EQ(HostOfTarget("http://door"), "door");
  for (const char* none : {"/v1/x", "*", "door:443", "http", "ftp://door/", "/a?u=http://b/"}) {
    EXPECT_EQ(HostOfTarget(none), std::nullopt) << none;
  }
  EXPECT_EQ(r.target, "/v1/x?y=1");
  r.SetTarget("HTTPS://door?y=1");
  EXPECT_EQ(r.path, "/");
  for (const char* other : {"*", "door:443", "ftp://door/v1/x", "evil?u=http://door/v1/x"}) {
    r.SetTarget(other);
    EXPECT_EQ(r.target, other);
    EXPECT_NE(r.path, "/v1/x");
  }
}

TEST(Origin, ParsesWhatItPrintsAndRefusesTheRest) {
  for (const char* good : {"127.0.0.1:80", "[::1]:8000", "engine.example:65535",
                           "https://engine.example:8443", "my_engine-0:1", "[fe80::1%eth0]:9"}) {
    const auto o = Origin::Parse(good);
    ASSERT_TRUE(o.ok()) << good;
    EXPECT_EQ(o->ToString(), good);
  }
  EXPECT_EQ(Origin::Parse("http://a:1/")->ToString(), "a:1");
  EXPECT_EQ(Origin::Parse("https://a/")->ToString(), "https://a:443");
  EXPECT_EQ(Origin::Parse("https://[::1]")->ToString(), "https://[::1]:443");
  for (const char* bad : {"", "a", "a:", "a:0", "a:65536", "a:8x", "::1", "::1:80", "[::1]",
                          "[a]:1", ":80", "ftp://a:1", "https://", "a:1/v1", "u@a:1", "http=1:2",
                          "a\r\nb:1", "a%b:1", "\xc3\xa4:1"}) {
    EXPECT_EQ(Origin::Parse(bad).status().code(), StatusCode::kInvalid) << bad;
  }
}

TEST(Origin, SaysWhatAnUpstreamWantsToBeCalled) {  // D28
  EXPECT_EQ(Origin::Parse("10.0.0.1:80")->HostHeader(), "10.0.0.1:80");
  Origin origin = *Origin::Parse("https://engine.example");
  EXPECT_EQ(origin.HostHeader(), "engine.example");
  EXPECT_EQ(origin.server_name(), "engine.example");
  origin.virtual_host = "tenant.example:8443";
  EXPECT_EQ(origin.HostHeader(), "tenant.example:8443");
  EXPECT_EQ(origin.server_name(), "tenant.example");
}

TEST(Json, StringsAreValidWhateverTheBytes) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  all += "\xE4\xB8\xAD\xF0\x9F\x98\x80 \xED\xA0\x80 \xC0\x80 \xF4\x90\x80\x80";
  simdjson::dom::parser parser;
  const std::string body = OpenAiError{418, all, "t\"", "c\\"}.Body();
  simdjson::dom::element doc;
  ASSERT_EQ(parser.parse(body).get(doc), simdjson::SUCCESS) << body;
  EXPECT_EQ(std::string_view(doc["error"]["type"]), "t\"");
  EXPECT_THAT(std::string(std::string_view(doc["error"]["message"])),
              testing::HasSubstr("\xE4\xB8\xAD\xF0\x9F\x98\x80"));
  EXPECT_EQ(JsonString("a\"\\\n\x01"), "\"a\\\"\\\\\\n\\u0001\"");
}

TEST(OpenAiError, HasTheShapeClientsRead) {
  EXPECT_EQ(
      OpenAiError::ForHttpStatus(404, "no", "model_not_found").Body(),
      R"({"error":{"message":"no","type":"not_found_error","param":null,"code":"model_not_found"}})");
  EXPECT_EQ(OpenAiError::FromStatus(BusyError("full")).status, 503);
  EXPECT_EQ(OpenAiError::FromStatus(DeadlineError("slow")).status, 504);
}

TEST(Cancellation, RunsEachCallbackOnceEvenWhenTheyUnregisterOthers) {
  Cancellation c;
  int first = 0, second = 0;
  Cancellation::Registration b;
  Cancellation::Registration a = c.OnCancel([&] {
    ++first;
    b.Reset();
    a.Reset();
  });
  b = c.OnCancel([&] { ++second; });
  {
    const auto gone = c.OnCancel([&] { first += 100; });
  }
  c.Cancel();
  c.Cancel();
  EXPECT_EQ(first, 1);
  EXPECT_LE(second, 1);
  int late = 0;
  const auto r = c.OnCancel([&] { ++late; });
  EXPECT_EQ(late, 1);
}

}  // namespace
}  // namespace ember::http
