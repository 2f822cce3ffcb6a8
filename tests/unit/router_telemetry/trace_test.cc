// The W3C header, and spans as a collector reads them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <simdjson.h>

#include "router/telemetry/otlp_exporter.h"
#include "router/telemetry/trace_context.h"
#include "tests/unit/router_telemetry/served_request.h"

namespace ember::router {
namespace {

constexpr char kParent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(Traceparent, IsReadAndWrittenAsTheStandardSays) {
  const auto parsed = Traceparent::Parse(kParent);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->ToString(), kParent);
  EXPECT_TRUE(parsed->sampled);
  // A later version may say more; what follows must be set off by a dash.
  const std::string later = "cc" + std::string(kParent).substr(2);
  EXPECT_TRUE(Traceparent::Parse(later));
  EXPECT_TRUE(Traceparent::Parse(later + "-what-the-future-brings"));
  EXPECT_FALSE(Traceparent::Parse(later + ".x"));
}

TEST(Traceparent, ABrokenOneIsNone) {
  const std::string good = kParent;
  std::vector<std::string> bad = {"",
                                  good + "-",
                                  good + "-00",
                                  "ff" + good.substr(2),
                                  "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                                  "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                                  "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"};
  for (size_t i = 0; i < good.size(); ++i) {
    bad.push_back(good.substr(0, i));
    bad.push_back(good);
    bad.back()[i] = 'g';
  }
  for (const std::string& text : bad) EXPECT_FALSE(Traceparent::Parse(text)) << text;
}

TEST(TraceContext, TheSenderDecidesElseTheRatio) {
  SeededRandom random(1);
  const TraceContext sampled = TraceContext::Begin(kParent, 0, random);
  EXPECT_TRUE(sampled.sampled);
  EXPECT_FALSE(sampled.began);
  EXPECT_EQ(sampled.trace.ToString(), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(sampled.parent, 0x00f067aa0ba902b7u);
  EXPECT_NE(sampled.span, sampled.parent);
  std::string unsampled = kParent;
  unsampled.back() = '0';
  EXPECT_FALSE(TraceContext::Begin(unsampled, 1, random).sampled);
  EXPECT_TRUE(TraceContext::Begin("", 1, random).sampled);
  EXPECT_TRUE(TraceContext::Begin("nonsense", 1, random).began);
  EXPECT_FALSE(TraceContext::Begin("", 0, random).sampled);
  int quarter = 0;
  for (int i = 0; i < 4000; ++i) quarter += TraceContext::Begin("", 0.25, random).sampled ? 1 : 0;
  EXPECT_NEAR(quarter, 1000, 120);
}

TEST(OtlpEndpoint, WithOrWithoutAPath) {
  EXPECT_EQ(OtlpOptions::Parse("http://c:4318")->target, "/v1/traces");
  EXPECT_EQ(OtlpOptions::Parse("http://c:4318/")->target, "/v1/traces");
  EXPECT_EQ(OtlpOptions::Parse("http://[::1]:4318/other/traces")->target, "/other/traces");
  EXPECT_EQ(OtlpOptions::Parse("http://[::1]:4318/x")->collector.port, 4318);
  EXPECT_FALSE(OtlpOptions::Parse("collector").ok());
  EXPECT_FALSE(OtlpOptions::Parse("grpc://c:4317").ok());
}

using simdjson::dom::element;

// The value of an attribute, as its text in JSON; "" when there is none of that key.
std::string Attribute(element span, std::string_view key) {
  for (element attribute : span["attributes"].get_array()) {
    if (std::string_view(attribute["key"]) == key) return simdjson::minify(attribute["value"]);
  }
  return "";
}

// The names of fields are those of opentelemetry/proto/trace/v1/trace.proto in JSON.
TEST(OtlpSpans, AreWhatTheProtocolSays) {
  RequestRecord record = Served();
  SeededRandom random(2);
  record.trace = TraceContext::Begin(kParent, 1, random);
  record.received_unix_ns = 1'700'000'000'000'000'000;
  record.ended_at = At(100);
  record.attempts[0].span = 0xabc;
  AttemptRecord failed = record.attempts[0];
  failed.span = 0xdef;
  failed.failure = "reset";
  record.attempts[0].status = 200;
  failed.first_byte_at = TimePoint();
  record.attempts.insert(record.attempts.begin(), failed);
  const OtlpBatch batch = OtlpJson({std::make_shared<const RequestRecord>(record)},
                                   {.version = "9", .instance = "127.0.0.1:8080"});
  EXPECT_EQ(batch.spans, 6u) << "request, tokenize, and twice route and upstream";
  simdjson::dom::parser parser;
  const element root = parser.parse(batch.json);
  const element resource = root["resourceSpans"].at(0);
  EXPECT_EQ(Attribute(resource["resource"], "service.name"), R"({"stringValue":"ember-router"})");
  const element scope = resource["scopeSpans"].at(0);
  EXPECT_EQ(std::string_view(scope["scope"]["name"]), "ember-router");
  std::map<std::string, std::vector<element>> spans;
  std::set<std::string> ids;
  for (element span : scope["spans"].get_array()) {
    spans[std::string(std::string_view(span["name"]))].push_back(span);
    EXPECT_EQ(std::string_view(span["traceId"]), "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_TRUE(ids.insert(std::string(std::string_view(span["spanId"]))).second) << "unique";
    EXPECT_EQ(std::string_view(span["spanId"]).size(), 16u);
  }
  const element request = spans["POST /v1/completions"].at(0);
  EXPECT_EQ(std::string_view(request["parentSpanId"]), "00f067aa0ba902b7");
  EXPECT_EQ(int64_t(request["kind"]), 2);
  EXPECT_EQ(std::string_view(request["startTimeUnixNano"]), "1700000000000000000");
  EXPECT_EQ(std::string_view(request["endTimeUnixNano"]), "1700000000100000000");
  EXPECT_EQ(Attribute(request, "http.response.status_code"), R"({"intValue":"200"})");
  const element route = spans["route"].at(1);
  EXPECT_EQ(std::string_view(route["parentSpanId"]), SpanIdText(record.trace.span));
  EXPECT_EQ(Attribute(route, "ember.replica"), R"({"stringValue":"r1"})");
  EXPECT_EQ(Attribute(route, "ember.cost_ms"), R"({"doubleValue":15})");
  EXPECT_EQ(Attribute(route, "ember.matched_tokens"), R"({"intValue":"960"})");
  const element broken = spans["upstream"].at(0), upstream = spans["upstream"].at(1);
  EXPECT_EQ(int64_t(broken["status"]["code"]), 2);
  EXPECT_EQ(std::string_view(upstream["spanId"]), "0000000000000abc");
  EXPECT_EQ(int64_t(upstream["kind"]), 3);
  EXPECT_EQ(std::string_view(upstream["events"].at(0)["name"]), "ttft");
  EXPECT_EQ(std::string_view(upstream["events"].at(0)["timeUnixNano"]), "1700000000030000000");
  EXPECT_EQ(Attribute(upstream, "http.response.status_code"), R"({"intValue":"200"})");
  EXPECT_TRUE(upstream["status"]["code"].error());
}

TEST(OtlpSpans, AnErrorSaysWhatItIsAndWhatIsUnknownIsLeftOut) {
  RequestRecord record = Served();
  SeededRandom random(2);
  record.trace = TraceContext::Begin(kParent, 1, random);
  record.ended_at = At(100);
  record.prompt_tokens = 0;
  record.stream = false;
  record.status = record.attempts[0].status = 500;
  const OtlpBatch batch = OtlpJson({std::make_shared<const RequestRecord>(record)}, {});
  EXPECT_THAT(batch.json, testing::Not(testing::HasSubstr("ember.prompt_tokens")));
  EXPECT_THAT(batch.json, testing::Not(testing::HasSubstr("ttft\""))) << "no stream";
  simdjson::dom::parser parser;
  const element root = parser.parse(batch.json);
  int errors = 0;
  for (element span : root["resourceSpans"].at(0)["scopeSpans"].at(0)["spans"].get_array()) {
    if (span["status"]["code"].error()) continue;
    EXPECT_EQ(std::string_view(span["status"]["message"]), "the replica said 500");
    ++errors;
  }
  EXPECT_EQ(errors, 2) << "the request and the attempt";
}

}  // namespace
}  // namespace ember::router
