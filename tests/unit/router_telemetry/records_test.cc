// What is told of finished requests: the explained ones, metrics of bounded size, headers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/base/random.h"
#include "router/front/reply_route.h"
#include "router/front/server_timing.h"
#include "router/telemetry/telemetry.h"
#include "tests/unit/router_telemetry/served_request.h"

namespace ember::router {
namespace {

using testing::HasSubstr;
using testing::Not;

class Told : public testing::Test {
 protected:
  MetricsRegistry registry_;
  RouterMetrics metrics_{registry_};
  ExplainLog explain_{3};
  SeededRandom random_{1};
  Telemetry telemetry_{metrics_, explain_, random_};
};

TEST_F(Told, ExplainKeepsTheNewestAndFindsById) {
  for (int i = 0; i < 5; ++i) {
    RequestRecord r = Served("id" + std::to_string(i));
    r.outcome = "say \"hi\"";
    telemetry_.Finish(std::move(r));
  }
  EXPECT_EQ(explain_.Json("id1", 10), "{\"requests\":[]}");
  EXPECT_THAT(explain_.Json("id4", 10), HasSubstr("say \\\"hi\\\""));
  const std::string two = explain_.Json("", 2);
  EXPECT_LT(two.find("id4"), two.find("id3"));
  EXPECT_THAT(two, Not(HasSubstr("id2")));
  EXPECT_THAT(two, HasSubstr(R"("measured_ttft_ms":30)"));
  EXPECT_THAT(two, HasSubstr(R"({"replica":"r2","queue_ms":7,)"));
  // What came after the fourth: only the fifth, in brief.
  const std::string news = explain_.BriefJson(4, 10);
  EXPECT_THAT(news, HasSubstr("id4"));
  EXPECT_THAT(news, Not(HasSubstr("id3")));
  EXPECT_THAT(news, Not(HasSubstr("candidates")));
}

TEST_F(Told, OnlyAStreamTellsWhenItsFirstTokenCame) {
  RequestRecord whole = Served();
  whole.stream = false;
  telemetry_.Finish(std::move(whole));
  EXPECT_THAT(explain_.Json("", 1), HasSubstr(R"("measured_ttft_ms":0,)"));
  EXPECT_THAT(registry_.RenderPrometheusText(),
              HasSubstr("ember_router_ttft_seconds_count{route=\"local\"} 0\n"));
}

TEST_F(Told, MetricsTellRoutesReasonsHitsAndErrors) {
  telemetry_.Finish(Served());
  const std::string text = registry_.RenderPrometheusText();
  EXPECT_THAT(text, HasSubstr("ember_router_requests_total{policy=\"cache_aware\",route=\"local\","
                              "status=\"200\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("ember_router_decisions_total{reason=\"lowest_cost\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("ember_router_ttft_seconds_sum{route=\"local\"} 0.03\n"));
  EXPECT_THAT(text, HasSubstr("ember_router_ttft_seconds_count{route=\"remote\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("ember_router_ttft_error_seconds_sum 0.005\n"))
      << "15 ms predicted, 20 ms from sending to the first byte";
  EXPECT_THAT(text, HasSubstr("ember_router_hit_tokens_total{source=\"predicted\"} 960\n"));
  EXPECT_THAT(text, HasSubstr("ember_router_hit_tokens_total{source=\"real\"} 900\n"));
  EXPECT_THAT(text, HasSubstr("ember_router_prompt_tokens_total 1000\n"));
}

TEST_F(Told, WhatIsKnownBeforehandIsThereBeforeItHappens) {
  const std::string text = registry_.RenderPrometheusText();
  EXPECT_THAT(text, HasSubstr("ember_router_retries_total{reason=\"reset\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("ember_router_decisions_total{reason=\"lowest_cost\"} 0\n"));
}

TEST_F(Told, LabelsStayBoundedWhateverUpstreamsInvent) {
  for (int status = 0; status < 5000; ++status) {
    RequestRecord r = Served();
    r.status = status;
    r.attempts.back().decision.reason = "reason" + std::to_string(status) + ": because";
    telemetry_.Finish(std::move(r));
  }
  const std::string text = registry_.RenderPrometheusText();
  const auto lines = [&](const std::string& prefix) {
    size_t n = 0;
    for (size_t at = text.find(prefix); at != text.npos; at = text.find(prefix, at + 1)) ++n;
    return n;
  };
  EXPECT_LE(lines("\nember_router_requests_total{"), 21u);
  EXPECT_LE(lines("\nember_router_decisions_total{"), 33u);
  EXPECT_THAT(text, HasSubstr("status=\"5xx\"} 96\n"));
  EXPECT_THAT(text, HasSubstr("reason=\"other\"}"));
}

TEST(ReplyRoute, TheEnginesCountDecidesBeforeThePrediction) {
  const CandidateCost local{.local_tokens = 500};
  const CandidateCost remote{.local_tokens = 100, .remote_tokens = 400};
  const CandidateCost nothing{};
  EXPECT_EQ(RouteOfReply({}, nullptr), "") << "nothing is known";
  EXPECT_EQ(RouteOfReply({}, &local), "local");
  EXPECT_EQ(RouteOfReply({}, &remote), "remote");
  EXPECT_EQ(RouteOfReply({}, &nothing), "recompute");
  EXPECT_EQ(RouteOfReply(0, &local), "recompute");
  EXPECT_EQ(RouteOfReply(16, &remote), "recompute") << "every chat shares its template's start";
  EXPECT_EQ(RouteOfReply(100, &remote), "local") << "the store gave nothing";
  EXPECT_EQ(RouteOfReply(480, &remote), "remote");
  EXPECT_EQ(RouteOfReply(480, nullptr), "local");
  EXPECT_EQ(KnownRoute("remote"), "remote");
  EXPECT_EQ(KnownRoute("mars"), "");
}

TEST(ServerTimingHeader, NamesEveryStep) {
  const RequestRecord r = Served();
  EXPECT_EQ(ServerTiming(r, r.attempts[0].sent_at, r.attempts[0].first_byte_at),
            "tokenize;dur=2.000, match;dur=1.000, decide;dur=2.000, queue;dur=0.000, "
            "upstream;dur=20.000");
}

}  // namespace
}  // namespace ember::router
