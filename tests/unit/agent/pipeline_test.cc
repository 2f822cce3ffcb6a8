// A request's way through the agent when all is well.
#include <gmock/gmock.h>

#include "tests/unit/agent/agent_fixture.h"

namespace ember::agent {
namespace {
using ::testing::HasSubstr;
using ::testing::Not;

class PipelineTest : public AgentFixture {
 protected:
  void SetUp() override { StartAll(); }
  // Fills both slots with other things.
  void Overwrite() {
    AskRight(Prompt(100, 11), {{"x-ember-store", "off"}});
    AskRight(Prompt(100, 12), {{"x-ember-store", "off"}});
    WaitIdle();
  }
};

TEST_F(PipelineTest, RecomputesThenFindsLocallyThenLoadsFromTheStore) {
  const std::string first = Prompt(300), second = first + Prompt(50, 3);
  const Reply cold = AskRight(first);
  EXPECT_EQ(cold.route(), "recompute");
  EXPECT_EQ(cold.cached(), 0u);
  EXPECT_EQ(cold.headers.Get("x-ember-replica"), "a");
  const Reply local = AskRight(second);
  EXPECT_EQ(local.route(), "local");
  EXPECT_EQ(local.cached(), 300u);
  WaitStored(5);  // of 350 tokens
  Overwrite();
  const Reply remote = AskRight(second);
  EXPECT_EQ(remote.route(), "remote");
  EXPECT_EQ(remote.cached(), 320u);
  EXPECT_EQ(engine_->completions().back().cached, 320u);
  const std::string records = Call("GET", "/ember/requests?limit=1", "").body;
  EXPECT_THAT(records, HasSubstr("\"route\":\"remote\""));
  EXPECT_THAT(records, HasSubstr("\"engine_cached\":320,\"engine_computed\":30"));
  EXPECT_THAT(records, HasSubstr("\"segments\":5"));
}

TEST_F(PipelineTest, NeverRestoresTheWholePrompt) {
  const std::string prompt = Prompt(320);
  AskRight(prompt);
  WaitStored(5);
  Overwrite();
  EXPECT_EQ(AskRight(prompt).cached(), 256u);  // 320 would leave nothing to compute
}

TEST_F(PipelineTest, ALocalPrefixThatTheStoreCannotBeatIsUsedWithoutAsking) {
  AskRight(Prompt(300));
  WaitStored(4);
  EXPECT_EQ(AskRight(Prompt(300)).route(), "local");
  EXPECT_THAT(Call("GET", "/ember/requests?limit=1", "").body, Not(HasSubstr("match_ms")));
  EXPECT_EQ(store_->gets(), 0);
}

TEST_F(PipelineTest, OnlyNewSegmentsArePushed) {
  AskRight(Prompt(300));
  WaitStored(4);
  AskRight(Prompt(300) + Prompt(100, 5));
  WaitStored(6);
  WaitFor("the counter", [&] { return Metric("ember_agent_pushed_segments_total") == 6; });
}

TEST_F(PipelineTest, StoreOffKeepsTheStoreOutOfARequest) {
  AskRight(Prompt(300), {{"x-ember-store", "off"}});
  WaitIdle();
  EXPECT_EQ(store_->size(), 0u);
  EXPECT_EQ(store_->matches(), 0);
  EXPECT_EQ(AskRight(Prompt(300), {{"x-ember-store", "off"}}).route(), "local");
}

TEST_F(PipelineTest, CacheOffComputesEverything) {
  AskRight(Prompt(300));
  WaitStored(4);
  const Reply reply = AskRight(Prompt(300), {{"x-ember-cache", "off"}});
  EXPECT_EQ(reply.route(), "recompute");
  EXPECT_EQ(engine_->completions().back().cached, 0u);
}

TEST_F(PipelineTest, ChatsGoThroughTheEnginesTemplate) {
  const std::string body =
      R"({"messages":[{"role":"user","content":")" + Prompt(200) + R"("}],"stream":true})";
  const Reply cold = Call("POST", "/v1/chat/completions", body);
  EXPECT_EQ(cold.code, 200);
  EXPECT_THAT(cold.body, HasSubstr(FakeEngine::AnswerTo("<" + Prompt(200) + ">")));
  EXPECT_THAT(cold.body, ::testing::EndsWith("data: [DONE]\n\n"));
  EXPECT_EQ(Call("POST", "/v1/chat/completions", body).route(), "local");
  EXPECT_EQ(engine_->calls("tokenize"), 1);  // the same body is not tokenized again
}

TEST_F(PipelineTest, TheBodyGetsASlotAndIsElseUnchanged) {
  const std::string body = "{ \"prompt\" : \"abc\", \"id_slot\": 7, \"x\": [1e-3] }\n";
  EXPECT_EQ(Call("POST", "/completion", body).code, 200);
  const FakeEngine::Completion seen = engine_->completions().back();
  EXPECT_THAT(seen.body, ::testing::StartsWith(body.substr(0, body.size() - 2)));
  EXPECT_THAT(seen.body, ::testing::EndsWith("}\n"));
  EXPECT_LT(seen.slot, 2u);
  EXPECT_THAT(seen.body,
              HasSubstr(",\"id_slot\":" + std::to_string(seen.slot) + ",\"cache_prompt\":true"));
}

TEST_F(PipelineTest, TheRequestIdIsTakenOverOrMade) {
  EXPECT_EQ(AskRight("abc", {{"x-ember-request-id", "r-17"}}).headers.Get("x-ember-request-id"),
            "r-17");
  EXPECT_EQ(AskRight("abc").headers.Get("x-ember-request-id").size(), 16u);
  EXPECT_THAT(Call("GET", "/ember/requests?id=r-17", "").body, HasSubstr("\"id\":\"r-17\""));
}

TEST_F(PipelineTest, OtherPathsPassThrough) {
  const std::string body = "any \xff bytes";
  const Reply reply = Call("POST", "/echo", body);
  EXPECT_EQ(reply.code, 200);
  EXPECT_THAT(reply.body, HasSubstr("any"));
}

TEST_F(PipelineTest, AHugeBodyGoesThroughUnread) {
  const std::string body = "{\"prompt\":\"x\",\"pad\":\"" + std::string(9 << 20, 'p') + "\"}";
  EXPECT_EQ(Call("POST", "/completion", body).code, 200);
  EXPECT_EQ(engine_->completions().back().body, body);
  AskRight(Prompt(100));
}

TEST_F(PipelineTest, ASlotUsedForSomethingElseIsNotBuiltUpon) {
  AskRight(Prompt(300));
  WaitIdle();
  // The engine may do anything with a slot for this one.
  const std::string adapted = R"({"lora":[],"prompt":")" + Prompt(300) + R"("})";
  EXPECT_EQ(Call("POST", "/completion", adapted).code, 200);
  WaitIdle();
  EXPECT_EQ(Metric("ember_agent_bypassed_total{reason=\"adapter\"}"), 1);
  const int erased = engine_->calls("erase");
  AskRight(Prompt(200, 4));
  AskRight(Prompt(200, 5));
  EXPECT_EQ(engine_->calls("erase"), erased + 1) << "one of the two slots";
}

TEST_F(PipelineTest, APromptIsFoundAgainInWhateverFormItComes) {
  const std::string text = Prompt(300);
  std::string ids;
  for (const char c : text) ids += (ids.empty() ? "" : ",") + std::to_string(c);
  AskRight(text);
  for (const std::string& members :
       {"\"prompt\":[" + ids + "]", "\"prompt\":[[" + ids + "]]", "\"prompt\":[\"" + text + "\"]",
        "\"n\":2,\"prompt\":\"" + text + "\"", "\"n\":2,\"prompt\":[" + ids + "]"}) {
    WaitIdle();
    const Reply reply = Call("POST", "/completion", "{" + members + "}");
    EXPECT_EQ(reply.code, 200);
    EXPECT_EQ(reply.answer(), FakeEngine::AnswerTo(text));
    EXPECT_EQ(reply.route(), "local") << members.substr(0, 20);
    EXPECT_EQ(engine_->completions().back().cached, 299u) << members.substr(0, 20);
  }
  EXPECT_FALSE(engine_->corrupted());
}

// The engine computes the other answers in slots of its own choice.
TEST_F(PipelineTest, AfterSeveralAnswersOnlyTheirOwnSlotIsKnown) {
  AskRight(Prompt(300));
  AskRight(Prompt(300, 7));
  WaitIdle();
  EXPECT_EQ(Call("POST", "/completion", R"({"n":2,"prompt":")" + Prompt(300) + R"("})").code, 200);
  WaitIdle();
  const int erased = engine_->calls("erase");
  EXPECT_EQ(AskRight(Prompt(300)).route(), "local");
  EXPECT_EQ(engine_->calls("erase"), erased);
  WaitIdle();
  EXPECT_NE(AskRight(Prompt(300, 7), {{"x-ember-store", "off"}}).route(), "local");
}

TEST_F(PipelineTest, MalformedBodiesAreTheClientsFault) {
  for (const std::string& body : {std::string(), std::string("["), std::string("null"),
                                  std::string("{\"a\":NaN}"), std::string(10000, '[')}) {
    const Reply reply = Call("POST", "/v1/chat/completions", body);
    EXPECT_EQ(reply.code, 400) << body.substr(0, 10);
    EXPECT_THAT(reply.body, HasSubstr("\"invalid_request_error\""));
  }
  AskRight("still alive");
}

TEST_F(PipelineTest, TheNextTurnFindsItsSlotThoughItComesAtOnce) {
  engine_->Set({.save_time = milliseconds(200)});
  std::string prompt = Prompt(200);
  AskRight(prompt);
  for (int turn = 0; turn < 3; ++turn) {
    prompt += Prompt(30, turn);
    EXPECT_EQ(AskRight(prompt).route(), "local");
  }
}

TEST_F(PipelineTest, ManyAtOnceAllGetTheirOwnAnswer) {
  engine_->Set({.think = milliseconds(5)});
  std::vector<std::thread> clients;
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([this, c] {
      for (int turn = 1; turn <= 4; ++turn) AskRight(Prompt(100 * turn, c % 4));
    });
  }
  for (std::thread& client : clients) client.join();
  WaitIdle();
  EXPECT_EQ(engine_->completions().size(), 33u);  // the identity's probe is one
}

TEST_F(PipelineTest, TellsRoutersTokensAndWhatItHolds) {
  const std::string body = "{\"prompt\":\"" + Prompt(200) + "\"}";
  AskRight(Prompt(200));
  WaitStored(3);
  auto tokenized = agent_->Tokenize("/completion", body);
  ASSERT_TRUE(tokenized.ok()) << tokenized.status().ToString();
  EXPECT_EQ(tokenized->token_count, 200u);
  ASSERT_EQ(tokenized->blocks.size(), 3u);
  EXPECT_EQ(agent_->feed().LongestPrefix(tokenized->blocks), 3u);
  EXPECT_EQ(agent_->StorePrefix(tokenized->blocks), 3u);
  EXPECT_EQ(agent_->feed().Now().space->id, tokenized->ns);
  EXPECT_EQ(agent_->Tokenize("/v1/embeddings", body).status().code(), StatusCode::kInvalid);
  EXPECT_EQ(agent_->Tokenize("/completion", "[").status().code(), StatusCode::kInvalid);
}

}  // namespace
}  // namespace ember::agent
