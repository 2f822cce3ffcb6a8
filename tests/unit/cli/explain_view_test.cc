// What `ember explain` makes of the router's JSON, and of its errors.
#include "client/cli/explain_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cli/router_call.h"

namespace ember::cli {
namespace {

using testing::HasSubstr;

constexpr char kRequest[] =
    R"({"request_id":"id7","method":"POST","path":"/v1/completions","outcome":"done","status":200,
"route":"local","prompt_tokens":1000,"store_tokens":900,"cached_tokens":960,"computed_tokens":40,
"stream":true,"measured_ttft_ms":30.5,"predicted_ttft_ms":28,"tokenize_ms":0.5,"attempts":[{"replica":"r1",
"rank":1,"policy":"cache_aware","reason":"lowest_cost: 28 ms","failure":"","candidates":[
{"replica":"r1","rank":0,"queue_ms":0,"total_ms":400,"ttft_ms":400},
{"replica":"r1","rank":1,"device_tokens":960,"any_tier_tokens":970,"queue_ms":3.25,"load_ms":0,
"prefill_ms":25,"tail_ms":0,"displacement_ms":-1.5,"exploration_ms":-2,"crowding_ms":0.5,"total_ms":26.75,"ttft_ms":28.25,
"local_tokens":960,"remote_tokens":0}]}]})";

TEST(ExplainView, MarksTheChosenAndShowsEveryPart) {
  const auto text = ExplainedText("{\"requests\":[" + std::string(kRequest) + "]}");
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr("id7  POST /v1/completions  done (200), local"));
  EXPECT_THAT(*text, HasSubstr("r1/1 by cache_aware: lowest_cost: 28 ms"));
  EXPECT_THAT(*text,
              testing::ContainsRegex(
                  "\\*  r1/1 +27 +28 +3.25 +0.00 +25 +0.00 +-1.50 +-2.00 +0.50 +960 +970 +960 +0"));
  EXPECT_THAT(*text, testing::ContainsRegex("\n +r1/0 +400 +400 +0.00 +- "));
}

TEST(ExplainView, OnlyAStreamTellsWhenItsFirstTokenCame) {
  const auto text = [](const std::string& members) {
    return *ExplainedText(
        R"({"requests":[{"status":200,"prompt_tokens":1000,"predicted_ttft_ms":28,)" + members +
        R"("attempts":[]}]})");
  };
  EXPECT_THAT(
      text(R"("stream":true,"measured_ttft_ms":30.5,"total_ms":900,"store_tokens":900,)"),
      testing::AllOf(HasSubstr("1,000 prompt tokens, 900 in the store;"),
                     HasSubstr("first token after 30 ms, first token predicted after 28\n")));
  EXPECT_THAT(
      text(R"("stream":false,"measured_ttft_ms":0,"total_ms":900,"store_tokens":0,)"),
      testing::AllOf(HasSubstr("1,000 prompt tokens;"),
                     HasSubstr("whole reply after 900 ms, first token predicted after 28\n")));
}

TEST(ExplainView, SaysWhoIsNoCandidateAndWhyTokensAreUnknown) {
  const auto text = ExplainedRequestText(
      R"({"tokens":"deadline: slow","excluded":[{"replica":"r2","state":"ejected","in_flight":3,
"why":"no answer"}],"request":{"outcome":"not sent","attempts":[{"replica":"r1","policy":"random",
"reason":"draw","candidates":[]}]}})");
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr("tokens unknown: deadline: slow"));
  EXPECT_THAT(*text, HasSubstr("not a candidate: r2, ejected, 3 in flight: no answer"));
  EXPECT_THAT(*text, HasSubstr("no costs"));
}

TEST(ExplainView, WithoutTokensNoPolicyIsBlamedAndARefusedRequestHasItsLine) {
  const auto text = ExplainedText(
      R"({"requests":[{"outcome":"refused: no","attempts":[]},{"outcome":"done","attempts":[
{"replica":"r1","policy":"cache_aware","reason":"no_tokens: least load","candidates":[]}]}]})");
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr("no costs: they go by tokens\n"));
  EXPECT_THAT(*text, HasSubstr("tokenized in - ms\n\n"));
}

TEST(RouterError, IsReadAsTheJsonThatItIs) {
  EXPECT_EQ(RouterErrorText(R"({"error":{"message":"no \"r1\" \u00e9","type":"x"}})"),
            "no \"r1\" \xC3\xA9");
  EXPECT_EQ(RouterErrorText("<html>"), "<html>");
  EXPECT_EQ(RouterErrorText("{}"), "{}");
  EXPECT_EQ(RouterErrorText(std::string(1000, 'x')).size(), 200u);
}

TEST(ExplainView, ShowsWhatWasToldBesideWhatIsHeld) {
  const auto text = ExplainedRequestText(
      R"({"tokens":"known","excluded":[],"request":{"outcome":"not sent","attempts":[]},"verified":[
{"replica":"r1","told_tokens":960,"told_store_tokens":640,"held_tokens":160,"store_tokens":48},
{"replica":"r2","told_tokens":5,"told_store_tokens":640,"why":"it has no agent"}]})");
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, testing::ContainsRegex("r1 +960 +160 +640 +48 *\n"));
  EXPECT_THAT(*text, testing::ContainsRegex("r2 +5 +- +640 +- +it has no agent"));
}

TEST(ExplainView, WhatIsNotOursIsSaidSo) {
  EXPECT_EQ(ExplainedText(R"({"requests":[]})").status().code(), StatusCode::kNotFound);
  for (const char* json : {"", "[]", "{}", "{\"requests\":{}}", "{\"request\":1"}) {
    EXPECT_EQ(ExplainedText(json).status().code(), StatusCode::kCorrupt) << json;
    EXPECT_EQ(ExplainedRequestText(json).status().code(), StatusCode::kCorrupt) << json;
  }
}

}  // namespace
}  // namespace ember::cli
