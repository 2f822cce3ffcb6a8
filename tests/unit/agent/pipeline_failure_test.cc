// A request's way through the agent when something fails: it costs time, never an answer.
#include <gmock/gmock.h>

#include "tests/unit/agent/agent_fixture.h"

namespace ember::agent {
namespace {
using ::testing::HasSubstr;

std::string FailureMetric(const char* what) {
  return std::string("ember_agent_cache_failures_total{what=\"") + what + "\"}";
}

class PipelineFailureTest : public AgentFixture {
 protected:
  // A prompt of 300 tokens is in the store and in no slot.
  void StoreOnly() {
    StartAll();
    AskRight(Prompt(300));
    WaitStored(4);
    WaitIdle();
    Overwrite();
  }
  void Overwrite() {
    AskRight(Prompt(100, 11), {{"x-ember-store", "off"}});
    AskRight(Prompt(100, 12), {{"x-ember-store", "off"}});
    WaitIdle();
  }
  // 20 other prompts answer as in a clean run.
  void TwentyOthers() {
    for (int i = 0; i < 20; ++i) AskRight(Prompt(90 + i, i));
  }
};

TEST_F(PipelineFailureTest, AStoreThatIsDownCostsNothingButTheReuse) {
  StoreOnly();
  store_->Set({.down = true});
  EXPECT_EQ(AskRight(Prompt(300)).route(), "recompute");
}

TEST_F(PipelineFailureTest, AFrozenStoreCostsOneDeadlineNotOneARequest) {
  StoreOnly();
  store_->Set({.frozen = true});
  EXPECT_EQ(AskRight(Prompt(300)).route(), "recompute");
  EXPECT_GE(Metric(FailureMetric("store_timeout")), 1);
  const auto start = std::chrono::steady_clock::now();
  AskRight(Prompt(400, 5));
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(900));
  store_->Set({});
}

TEST_F(PipelineFailureTest, WhatIsGoneSinceTheMatchIsComputed) {
  StoreOnly();
  store_->Set({.usable_at_get = 2});
  const Reply partly = AskRight(Prompt(300));
  EXPECT_EQ(partly.route(), "remote");
  EXPECT_EQ(partly.cached(), 128u);
  WaitIdle();
  Overwrite();
  store_->Set({.match_only = true});
  EXPECT_EQ(AskRight(Prompt(300)).route(), "recompute");
}

TEST_F(PipelineFailureTest, APayloadThatDoesNotFitNeverReachesTheEngine) {
  StoreOnly();
  const int restores = engine_->calls("restore");
  store_->Set({.wrong_shape_at = 3});
  EXPECT_EQ(AskRight(Prompt(300)).route(), "recompute");
  EXPECT_EQ(engine_->calls("restore"), restores);
  EXPECT_EQ(Metric(FailureMetric("join_refused")), 1);
  TwentyOthers();
}

TEST_F(PipelineFailureTest, AFailedRestoreLeavesTheEngineClean) {
  StoreOnly();
  engine_->Set({.refuse_restore = true});
  const Reply reply = AskRight(Prompt(300));
  EXPECT_EQ(reply.route(), "recompute");
  EXPECT_EQ(reply.cached(), 0u);
  EXPECT_EQ(Metric(FailureMetric("restore_failed")), 1);
  engine_->Set({});
  TwentyOthers();
}

TEST_F(PipelineFailureTest, ARestoreOfWhichNothingIsUsedIsCountedByTheEnginesNumbers) {
  StoreOnly();
  engine_->Set({.restore_nothing = true});
  for (int i = 1; i <= 4; ++i) {
    AskRight(Prompt(300));
    WaitIdle();
    EXPECT_EQ(Metric(FailureMetric("restore_unused")), std::min(i, 3));
    Overwrite();
  }
  EXPECT_EQ(engine_->calls("restore"), 3);  // then it is not tried any more
  EXPECT_EQ(engine_->completions().back().cached, 0u);
}

TEST_F(PipelineFailureTest, ASlotThatCannotBeSavedIsErasedBeforeItsNextUse) {
  StartAll();
  engine_->Set({.refuse_save = true});
  AskRight(Prompt(300));
  WaitIdle();
  EXPECT_EQ(Metric(FailureMetric("save_failed")), 1);
  EXPECT_EQ(store_->size(), 0u);
  engine_->Set({});
  AskRight(Prompt(300));
  AskRight(Prompt(300, 7));
  TwentyOthers();
}

TEST_F(PipelineFailureTest, ASaveThatIsNotThereIsNotBelieved) {
  StartAll();
  engine_->Set({.save_elsewhere = true});
  AskRight(Prompt(300));
  WaitIdle();
  EXPECT_EQ(Metric(FailureMetric("save_refused")), 1);
  engine_->Set({});
  AskRight(Prompt(300));
}

TEST_F(PipelineFailureTest, ARestartedEngineIsNotBelievedToHoldAnything) {
  StartAll();
  const std::string prompt = Prompt(300);
  AskRight(prompt);
  WaitStored(4);
  WaitIdle();
  engine_->Kill();
  WaitFor("the loss to be noticed", [&] { return Call("GET", "/health", "").code == 503; });
  EXPECT_EQ(Ask(prompt).code, 503);
  EXPECT_THAT(Call("GET", "/ember/held", "").body, HasSubstr("\"known\":false"));
  engine_->Start();
  WaitReady();
  const Reply next = AskRight(prompt);
  EXPECT_EQ(next.route(), "remote");
  EXPECT_EQ(next.cached(), 256u);
}

TEST_F(PipelineFailureTest, AnEngineThatDiesInAReplyIsNoticedAtOnce) {
  StartAll();
  engine_->Set({.cut_reply = true});
  const Reply reply = Ask(Prompt(300));
  EXPECT_THAT(reply.body, HasSubstr("upstream_failed"));
  engine_->Set({});
  WaitReady();
  EXPECT_GE(Metric("ember_agent_engine_losses_total"), 1);
  AskRight(Prompt(300));
}

TEST_F(PipelineFailureTest, TheEngineIsServedWithoutACacheWhenItsSlotsCannotBeRead) {
  engine_ = std::make_unique<FakeEngine>(folder_, model_);
  engine_->Set({.save_elsewhere = true});
  StartAgent();
  WaitReady();
  EXPECT_THAT(Call("GET", "/health", "").body, HasSubstr("--slot-save-path"));
  EXPECT_EQ(AskRight(Prompt(300)).route(), "recompute");
  EXPECT_EQ(AskRight(Prompt(300, 2)).route(), "recompute");
  EXPECT_EQ(store_->size(), 0u);
}

TEST_F(PipelineFailureTest, AnotherModelOrAdaptersTurnTheCacheOff) {
  engine_ = std::make_unique<FakeEngine>(folder_, "/models/other.gguf");
  StartAgent();
  WaitReady();
  EXPECT_THAT(Call("GET", "/health", "").body, HasSubstr("/models/other.gguf"));
  AskRight(Prompt(100));
  agent_->Stop();
  engine_ = std::make_unique<FakeEngine>(folder_, model_);
  engine_->Set({.adapters = true});
  StartAgent();
  WaitReady();
  EXPECT_THAT(Call("GET", "/health", "").body, HasSubstr("LoRA"));
}

TEST_F(PipelineFailureTest, WithoutAStoreOnlyTheSlotsAreUsed) {
  engine_ = std::make_unique<FakeEngine>(folder_, model_);
  StartAgent(false);
  WaitReady();
  AskRight(Prompt(300));
  EXPECT_EQ(AskRight(Prompt(300)).route(), "local");
}

TEST_F(PipelineFailureTest, TokensThatCannotBeToldCostTheCacheOnly) {
  StartAll();
  engine_->Set({.refuse_tokenize = true});
  EXPECT_EQ(AskRight(Prompt(300)).route(), "recompute");
  EXPECT_EQ(Metric("ember_agent_bypassed_total{reason=\"tokenize\"}"), 1);
}

TEST_F(PipelineFailureTest, StopPushesWhatWasSaved) {
  StartAll();
  AskRight(Prompt(300));
  agent_->Stop();
  EXPECT_EQ(store_->size(), 4u);
}

}  // namespace
}  // namespace ember::agent
