// Parameters by which an engine makes another prompt of a request, or other counts.
#include "router/tokenize/prompt_changes.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "router/tokenize/prompt_outline.h"
#include "router/tokenize/text_chunks.h"

namespace ember::router {
namespace {

// What an engine changes is nobody's to know, and no witness where it may be changed.
TEST(PromptChanges, ParametersOfEveryEngineAndApi) {  // A8
  PromptOutline outline;
  const auto read = [&](PromptApi api, const std::string& members) {
    const char* prompt = api == PromptApi::kChat        ? "\"messages\":[]"
                         : api == PromptApi::kResponses ? "\"input\":\"a\""
                                                        : "\"prompt\":\"a\"";
    outline = {};
    return PromptOutline::Of(api, "{" + members + "," + prompt + "}", kAllRoles, &outline);
  };
  const std::array apis = {PromptApi::kChat, PromptApi::kCompletion, PromptApi::kResponses};
  for (const PromptApi api : apis) {
    for (const char* other :
         {R"("suffix":"end")", R"("prompt_embeds":"AAAA")", R"("prompt_embeds":["AAAA"])",
          R"("input_ids":[1])", R"("input_embeds":[[0.5]])", R"("session_params":{"id":"s"})",
          R"("extra_key":"k")", R"("previous_input_messages":[{}])"}) {
      EXPECT_EQ(read(api, other), PromptReason::kUnsupported) << other;
    }
    for (const char* none :
         {R"("suffix":null)", R"("suffix":"")", R"("suffix":"a","suffix":"")",
          R"("prompt_embeds":[])", R"("truncation":"disabled")", R"("tool_choice":"auto")",
          R"("tool_choice":"required")", R"("tool_choice":null)", R"("cache_prompt":true)",
          R"("use_beam_search":false)", R"("truncate_prompt_tokens":null)",
          R"("truncate_prompt_tokens":-1,"truncate_prompt_tokens":null)"}) {
      EXPECT_EQ(read(api, none), PromptReason::kNone) << none;
      EXPECT_FALSE(outline.doubtful || outline.prompt_logprobs || outline.several) << none;
      EXPECT_EQ(outline.most_tokens, UINT64_MAX) << none;
    }
    // However it is written, and whatever else it says.
    for (const char* maybe :
         {R"("truncation": "auto" )", R"("truncation":"\u0061uto")", R"("truncation":{"type":1})",
          R"("tool_choice":"none")", R"("tool_choice":"\u006eone")",
          R"("tool_\u0063hoice":"n\u006fne")", R"("tool_choice":{"type":"none"})",
          R"("tool_choice":{"type":"function","function":{"name":"f"}})", R"("tool_choice":"any")",
          R"("truncate_prompt_tokens":-1)", R"("add_special_tokens":1)",
          R"("add_special_tokens":"true")"}) {
      EXPECT_EQ(read(api, maybe), PromptReason::kNone) << maybe;
      EXPECT_TRUE(outline.doubtful) << maybe;
    }
    EXPECT_EQ(read(api, R"("cache_prompt":false)"), PromptReason::kNone);
    EXPECT_TRUE(outline.prompt_logprobs) << "computed whole";
    EXPECT_EQ(read(api, R"("use_beam_search":true)"), PromptReason::kNone);
    EXPECT_TRUE(outline.several);
    for (const auto& [value, most] : std::vector<std::pair<std::string, uint64_t>>{
             {"90", 90}, {"\"90\"", 90}, {"0", 0}, {"9e1", 0}, {"90.0", 0}, {"\"x\"", 0}}) {
      EXPECT_EQ(read(api, R"("truncate_prompt_tokens": )" + value), PromptReason::kNone) << value;
      EXPECT_EQ(outline.most_tokens, most) << value;
      EXPECT_FALSE(outline.doubtful) << value;
    }
  }
}

// What makes a chat's end, too.
TEST(PromptChanges, FlagsThatOnlyEnginesUnderstandAreDoubtful) {
  for (const char* name : {"add_generation_prompt", "continue_final_message"}) {
    for (const auto& [value, doubtful] : std::vector<std::pair<const char*, bool>>{
             {"true", false}, {"false", false}, {"null", false}, {"1", true}, {"\"true\"", true}}) {
      PromptOutline outline;
      const std::string body = std::string("{\"messages\":[],\"") + name + "\": " + value + " }";
      ASSERT_EQ(PromptOutline::Of(PromptApi::kChat, body, kAllRoles, &outline),
                PromptReason::kNone);
      EXPECT_EQ(outline.doubtful, doubtful) << body;
      EXPECT_NE(outline.request.find(std::string(name) + "\":" + value), std::string::npos) << body;
    }
  }
}

TEST(PromptChanges, OfATextThatMayBeCutNothingIsProved) {  // A8
  const auto read = [](const std::string& prompt, const char* most) {
    return TextChunksOf(PromptApi::kCompletion,
                        "{\"prompt\":" + prompt + R"(,"truncate_prompt_tokens":)" + most + "}");
  };
  const std::string text = "\"" + std::string(200, 'x') + "\"";  // 50 chunks
  EXPECT_EQ(read(text, "49"), nullptr);
  ASSERT_NE(read(text, "50"), nullptr);
  EXPECT_FALSE(read(text, "50")->counted_alone());
  EXPECT_TRUE(read(text, "null")->counted_alone());
  EXPECT_EQ(read("[1,2,3]", "2"), nullptr);
  ASSERT_NE(read("[1,2,3]", "3"), nullptr);
  EXPECT_TRUE(read("[1,2,3]", "3")->counted_alone()) << "ids are counted";
}

}  // namespace
}  // namespace ember::router
