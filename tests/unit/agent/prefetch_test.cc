// What is received from the store before its request has a slot.
#include <gmock/gmock.h>

#include <boost/asio/post.hpp>

#include "tests/unit/agent/agent_fixture.h"

namespace ember::agent {
namespace {
using ::testing::HasSubstr;

constexpr size_t kPayload = 64 + 64 * 4 * 8;  // of one segment of the fake engine

class PrefetchTest : public AgentFixture {
 protected:
  // A prompt of 300 tokens is in the store and in no slot.
  void StoreOnly() {
    StartAll();
    AskRight(Prompt(300));
    WaitStored(4);
    WaitIdle();
    AskRight(Prompt(100, 11), {{"x-ember-store", "off"}});
    AskRight(Prompt(100, 12), {{"x-ember-store", "off"}});
    WaitIdle();
  }
  // Both slots compute until the engine lets go.
  void OccupySlots() {
    engine_->Set({.hold = true});
    for (const int seed : {21, 22}) {
      busy_.push_back(
          Begin("POST", "/completion", Body(Prompt(100, seed)), {{"x-ember-store", "off"}}));
    }
    WaitFor("busy slots", [this] { return Metric("ember_agent_slots_busy") == 2; });
  }
  void FreeSlots() {
    engine_->Set({});
    for (auto& reply : busy_) EXPECT_EQ(reply.get().code, 200);
    busy_.clear();
  }
  std::future<Reply> BeginAsk(const std::string& prompt, http::Headers headers = {}) {
    return Begin("POST", "/completion", Body(prompt), std::move(headers));
  }
  void CheckRight(const Reply& reply, const std::string& prompt) {
    EXPECT_EQ(reply.code, 200) << reply.status.ToString() << reply.body;
    EXPECT_EQ(reply.answer(), FakeEngine::AnswerTo(prompt));
    EXPECT_FALSE(engine_->corrupted());
  }
  PrefetchAnswer Hint(const std::string& prompt, uint32_t wanted = 256) {
    return agent_->Prefetch({"/completion", Body(prompt), {}, wanted});
  }
  PrefetchAnswer HintTokens(const std::string& prompt) {
    PrefetchHint hint;
    for (const char c : prompt) hint.tokens.push_back(static_cast<unsigned char>(c));
    hint.wanted = static_cast<uint32_t>(prompt.size());
    return agent_->Prefetch(std::move(hint));
  }
  double Outcomes(const char* outcome) {
    return Metric(std::string("ember_agent_prefetches_total{outcome=\"") + outcome + "\"}");
  }
  void WaitOutcome(const char* outcome, int count = 1) {
    WaitFor(outcome, [&] { return Outcomes(outcome) == count; });
  }
  std::string LastRecord() { return Call("GET", "/ember/requests?limit=1", "").body; }

  std::vector<std::future<Reply>> busy_;
};

TEST_F(PrefetchTest, ARequestThatWaitsForASlotTransfersMeanwhile) {
  StoreOnly();
  OccupySlots();
  auto waiting = BeginAsk(Prompt(300));
  WaitOutcome("transferred");
  const int gets = store_->gets();
  FreeSlots();
  const Reply reply = waiting.get();
  CheckRight(reply, Prompt(300));
  EXPECT_EQ(reply.route(), "remote");
  EXPECT_EQ(reply.cached(), 256u);
  EXPECT_EQ(store_->gets(), gets) << "nothing was left to transfer";
  const std::string record = LastRecord();
  EXPECT_THAT(record, HasSubstr("\"prefetched_segments\":4,\"prefetch_lead_ms\":"));
  EXPECT_THAT(record, HasSubstr("\"bytes_loaded\":0"));
  EXPECT_EQ(Metric("ember_agent_prefetch_used_bytes_total"), 4 * kPayload);
  EXPECT_EQ(Metric("ember_agent_prefetch_saved_seconds_count"), 1);
}

TEST_F(PrefetchTest, AHintTransfersBeforeTheRequestComes) {
  StoreOnly();
  EXPECT_EQ(Hint(Prompt(300)).kind, PrefetchAnswer::kAccepted);
  WaitOutcome("transferred");
  const int gets = store_->gets();
  EXPECT_EQ(HintTokens(Prompt(300)).kind, PrefetchAnswer::kAlreadyThere);
  const Reply reply = AskRight(Prompt(300));
  EXPECT_EQ(reply.route(), "remote");
  EXPECT_EQ(reply.cached(), 256u);
  EXPECT_EQ(store_->gets(), gets);
  EXPECT_EQ(Metric("ember_agent_prefetch_bytes_total"), 4 * kPayload);
}

TEST_F(PrefetchTest, ALongerPromptTransfersOnlyTheRest) {
  StoreOnly();
  EXPECT_EQ(HintTokens(Prompt(128)).kind, PrefetchAnswer::kAccepted);
  WaitOutcome("transferred");
  EXPECT_EQ(AskRight(Prompt(300)).cached(), 256u);
  EXPECT_THAT(LastRecord(), HasSubstr("\"prefetched_segments\":2"));
  EXPECT_THAT(LastRecord(), HasSubstr("\"bytes_loaded\":" + std::to_string(2 * kPayload)));
}

TEST_F(PrefetchTest, ALoadWaitsForATransferThatIsUnderWay) {
  StoreOnly();
  const int gets = store_->gets(), matches = store_->matches();
  store_->Set({.hold_gets = true});
  EXPECT_EQ(HintTokens(Prompt(300)).kind, PrefetchAnswer::kAccepted);
  WaitFor("the transfer", [&] { return store_->gets() == gets + 1; });
  auto asked = BeginAsk(Prompt(300));
  WaitFor("the request's own match", [&] { return store_->matches() == matches + 2; });
  store_->Set({});
  const Reply reply = asked.get();
  CheckRight(reply, Prompt(300));
  EXPECT_EQ(reply.route(), "remote");
  EXPECT_EQ(store_->gets(), gets + 1);
}

TEST_F(PrefetchTest, ATransferThatHangsCostsNoMoreThanComputing) {
  StoreOnly();
  const int gets = store_->gets();
  store_->Set({.hold_gets = true});
  HintTokens(Prompt(300));
  WaitFor("the transfer", [&] { return store_->gets() == gets + 1; });
  EXPECT_EQ(AskRight(Prompt(300)).route(), "recompute");
  EXPECT_EQ(store_->gets(), gets + 1);
  store_->Set({});
}

TEST_F(PrefetchTest, WhatIsPurgedBeforeItsUseIsNotUsed) {
  StoreOnly();
  HintTokens(Prompt(256));
  WaitOutcome("transferred");
  store_->Purge(1);
  EXPECT_EQ(AskRight(Prompt(300)).cached(), 64u) << "the purge came before";
  EXPECT_EQ(Metric("ember_agent_prefetch_held_bytes"), kPayload);
  WaitIdle();
  store_->Purge();
  EXPECT_EQ(AskRight(Prompt(300, 5)).route(), "recompute");
}

TEST_F(PrefetchTest, WhatTheStoreCannotConfirmIsNotUsed) {
  StoreOnly();
  HintTokens(Prompt(256));
  WaitOutcome("transferred");
  store_->Set({.down = true});
  EXPECT_EQ(AskRight(Prompt(300)).route(), "recompute");
  EXPECT_EQ(Metric("ember_agent_prefetch_used_bytes_total"), 0);
  store_->Set({});
  EXPECT_EQ(AskRight(Prompt(256)).route(), "local");
}

TEST_F(PrefetchTest, ARequestThatLeavesBeforeItsTurnTransfersNothing) {
  StoreOnly();
  for (const int seed : {1, 2}) AskRight(Prompt(300, seed));
  WaitStored(12);
  OccupySlots();
  const int gets = store_->gets();
  store_->Set({.hold_gets = true});
  for (const int seed : {1, 2}) HintTokens(Prompt(256, seed));
  WaitFor("two transfers", [&] { return store_->gets() == gets + 2; });
  http::Cancellation leave;
  auto asked = Begin("POST", "/completion", Body(Prompt(300)), {}, &leave);
  WaitFor("the line", [&] { return Metric("ember_agent_requests_waiting") == 1; });
  boost::asio::post(loop_.executor(), [&] { leave.Cancel(); });
  EXPECT_FALSE(asked.get().status.ok());
  WaitFor("its leave", [&] { return Metric("ember_agent_requests_waiting") == 0; });
  store_->Set({});
  WaitOutcome("not_wanted");
  WaitOutcome("transferred", 2);
  EXPECT_EQ(store_->gets(), gets + 2);
  FreeSlots();
  EXPECT_EQ(AskRight(Prompt(300)).cached(), 256u);
}

TEST_F(PrefetchTest, TheMemoryIsBoundedAndTheRestIsLoadedAsEver) {
  config_.prefetch_bytes = 3 * kPayload + 1;
  StoreOnly();
  EXPECT_EQ(HintTokens(Prompt(256)).kind, PrefetchAnswer::kAccepted);
  WaitOutcome("transferred");
  EXPECT_EQ(Metric("ember_agent_prefetch_held_bytes"), 3 * kPayload);
  EXPECT_EQ(AskRight(Prompt(300)).cached(), 256u);
  EXPECT_THAT(LastRecord(), HasSubstr("\"prefetched_segments\":3"));
}

TEST_F(PrefetchTest, AHintThatNoRequestFollowsIsForgotten) {
  config_.prefetch_keep = milliseconds(200);
  StoreOnly();
  HintTokens(Prompt(256));
  WaitOutcome("transferred");
  WaitFor("the deadline", [&] { return Metric("ember_agent_prefetch_held_bytes") == 0; });
  EXPECT_EQ(Metric("ember_agent_prefetch_wasted_bytes_total"), 4 * kPayload);
  EXPECT_EQ(AskRight(Prompt(300)).route(), "remote");
}

TEST_F(PrefetchTest, NothingIsReceivedForRequestsThatWouldNotLoad) {
  StoreOnly();
  OccupySlots();
  std::vector<std::future<Reply>> waiting;
  waiting.push_back(BeginAsk(Prompt(300), {{"x-ember-store", "off"}}));
  waiting.push_back(BeginAsk(Prompt(300), {{"x-ember-cache", "off"}}));
  WaitFor("the line", [&] { return Metric("ember_agent_requests_waiting") == 2; });
  FreeSlots();
  for (auto& reply : waiting) CheckRight(reply.get(), Prompt(300));
  EXPECT_EQ(Metric("ember_agent_prefetch_bytes_total"), 0);
  EXPECT_EQ(Hint(Prompt(50)).kind, PrefetchAnswer::kAccepted) << "its tokens are not known yet";
  WaitOutcome("nothing");
  EXPECT_EQ(HintTokens(Prompt(256, 9)).kind, PrefetchAnswer::kAccepted);
  WaitOutcome("nothing", 2);
}

TEST_F(PrefetchTest, AHintThatIsNotForTheCacheSaysWhy) {
  StoreOnly();
  const auto reason = [&](const char* path, const std::string& body) {
    const PrefetchAnswer answer = agent_->Prefetch({path, body, {}, 256});
    EXPECT_EQ(answer.kind, PrefetchAnswer::kNothing);
    return answer.reason;
  };
  EXPECT_EQ(reason("/v1/embeddings", "{}"), "not for the cache");
  EXPECT_THAT(reason("/completion", "["), HasSubstr("JSON"));
  EXPECT_THAT(reason("/completion", R"({"prompt":["x","y"]})"), HasSubstr("prompt_form"));
  EXPECT_THAT(reason("/completion", R"({"cache_prompt":false,"prompt":"x"})"), HasSubstr("client"));
  engine_->Kill();
  WaitFor("the loss", [&] { return Call("GET", "/health", "").code == 503; });
  EXPECT_THAT(reason("/completion", Body(Prompt(300))), HasSubstr("the cache is off"));
}

TEST_F(PrefetchTest, OffIsOff) {
  config_.prefetch_bytes = 0;
  StoreOnly();
  EXPECT_EQ(HintTokens(Prompt(256)).kind, PrefetchAnswer::kNothing);
  OccupySlots();
  auto waiting = BeginAsk(Prompt(300));
  WaitFor("the line", [&] { return Metric("ember_agent_requests_waiting") == 1; });
  FreeSlots();
  EXPECT_EQ(waiting.get().route(), "remote");
  EXPECT_EQ(Metric("ember_agent_prefetch_bytes_total"), 0);
}

TEST_F(PrefetchTest, AHintAndItsRequestAreTokenizedOnce) {
  StoreOnly();
  const int before = engine_->calls("tokenize");
  engine_->Set({.hold_tokenize = true});
  Hint(Prompt(290));
  WaitFor("the question", [&] { return engine_->calls("tokenize") == before + 1; });
  auto asked = BeginAsk(Prompt(290), {{"x-ember-request-id", "second"}});
  WaitFor("the request",
          [&] { return Call("GET", "/ember/requests?id=second", "").body != "[]\n"; });
  engine_->Set({});
  CheckRight(asked.get(), Prompt(290));
  EXPECT_EQ(engine_->calls("tokenize"), before + 1);
}

}  // namespace
}  // namespace ember::agent
