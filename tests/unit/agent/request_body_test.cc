#include "client/agent/request_body.h"

#include <gtest/gtest.h>

namespace ember::agent {
namespace {

RequestBody Chat(std::string_view body) {
  auto out = ReadRequestBody(CompletionKind::kChat, body);
  EXPECT_TRUE(out.ok()) << body << ": " << out.status().ToString();
  return out.ok() ? *out : RequestBody();
}
RequestBody Text(std::string_view body) {
  auto out = ReadRequestBody(CompletionKind::kText, body);
  EXPECT_TRUE(out.ok()) << body;
  return out.ok() ? *out : RequestBody();
}

TEST(RequestBodyTest, KnowsTheCompletionPaths) {
  EXPECT_EQ(CompletionKindOf("/v1/chat/completions"), CompletionKind::kChat);
  EXPECT_EQ(CompletionKindOf("/v1/completions"), CompletionKind::kText);
  EXPECT_EQ(CompletionKindOf("/completion"), CompletionKind::kText);
  EXPECT_FALSE(CompletionKindOf("/v1/embeddings"));
  EXPECT_FALSE(CompletionKindOf("/v1/chat/completions/"));
}

TEST(RequestBodyTest, ReadsWhatItNeeds) {
  const RequestBody body = Text(R"({"stream":true,"prompt":"a\u00e9\n"})");
  EXPECT_TRUE(body.stream);
  EXPECT_EQ(body.prompt, "a\xc3\xa9\n");
  EXPECT_TRUE(body.cache_prompt);
  EXPECT_EQ(body.bypass, "");
  EXPECT_FALSE(Text(R"({"prompt":"a","cache_prompt":false})").cache_prompt);
}

TEST(RequestBodyTest, ToolsAndTextPartsAreTheEnginesBusiness) {
  EXPECT_EQ(
      Chat(R"({"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function"}]})").bypass,
      "");
  EXPECT_EQ(Chat(R"({"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]})").bypass,
            "");
  EXPECT_EQ(Chat(R"({"messages":[],"n":1,"lora":null})").bypass, "");
}

TEST(RequestBodyTest, SaysWhyTheCacheStaysOut) {
  EXPECT_EQ(Chat(R"({"messages":[],"lora":[{"id":0,"scale":1}]})").bypass, "adapter");
  EXPECT_EQ(Chat(R"({"messages":[],"n_cache_reuse":32})").bypass, "shifted_cache");
  EXPECT_EQ(Chat(R"({"messages":[{"content":[{"type":"image_url"}]}]})").bypass, "media");
  EXPECT_EQ(Chat(R"({"prompt":"x"})").bypass, "no_prompt");
  EXPECT_EQ(Chat(R"({"messages":[],"messages":[]})").bypass, "repeated_field");
  for (const char* prompt : {R"(["a","b"])", R"([[1],[2]])", R"([1,"a"])", R"(["a",1])", "[]",
                             "[[]]", "[-1]", "[2147483648]", "[1.5]", "{}", "7", R"([["a"]])"}) {
    EXPECT_EQ(Text("{\"prompt\":" + std::string(prompt) + "}").bypass, "prompt_form") << prompt;
  }
}

TEST(RequestBodyTest, OnePromptInAnyForm) {
  for (const char* prompt : {R"("text")", R"(["text"])"}) {
    const RequestBody body = Text("{\"prompt\":" + std::string(prompt) + "}");
    EXPECT_EQ(body.bypass, "") << prompt;
    EXPECT_EQ(body.prompt, "text");
    EXPECT_TRUE(body.ids.empty());
  }
  for (const char* prompt : {"[5,0,2147483647]", "[[5,0,2147483647]]"}) {
    const RequestBody body = Text("{\"prompt\":" + std::string(prompt) + "}");
    EXPECT_EQ(body.bypass, "") << prompt;
    EXPECT_EQ(body.ids, (std::vector<TokenId>{5, 0, 2147483647}));
  }
  EXPECT_EQ(Text(R"({"prompt":[7]})").ids, std::vector<TokenId>{7});
}

TEST(RequestBodyTest, SeveralAnswersToOnePromptAreTold) {
  EXPECT_TRUE(Chat(R"({"messages":[],"n":2})").several);
  EXPECT_TRUE(Chat(R"({"messages":[],"n":"x"})").several);
  EXPECT_TRUE(Text(R"({"prompt":"x","n_cmpl":2})").several);
  EXPECT_EQ(Chat(R"({"messages":[],"n":2})").bypass, "");
  EXPECT_FALSE(Chat(R"({"messages":[],"n":1})").several);
  EXPECT_FALSE(Chat(R"({"messages":[],"n":null})").several);
}

TEST(RequestBodyTest, RefusesWhatIsNotAJsonObject) {
  std::string deep(20000, '[');
  for (const std::string& body :
       {std::string(), std::string("["), std::string("\"x\""), std::string("null"),
        std::string("[1]"), std::string("{\"a\":NaN}"), std::string("{\"a\":1e400}"),
        std::string("{\"a\":\"\\ud800\"}"), std::string("{\"a\":\"\xff\"}"),
        std::string("{\"a\":1}{"), "{\"a\":" + deep, deep}) {
    EXPECT_EQ(ReadRequestBody(CompletionKind::kChat, body).status().code(), StatusCode::kInvalid)
        << body.substr(0, 20);
  }
}

TEST(AddSlotTest, AddsAtTheEndAndChangesNothingElse) {
  EXPECT_EQ(AddSlot(R"({"a":1})", 3, true), R"({"a":1,"id_slot":3,"cache_prompt":true})");
  EXPECT_EQ(AddSlot(R"({"a":1})", 0, false), R"({"a":1,"id_slot":0,"cache_prompt":false})");
  EXPECT_EQ(AddSlot("{ }", 1, std::nullopt), "{ \"id_slot\":1}");
  EXPECT_EQ(AddSlot(" {\"id_slot\":7, \"b\":{}\n}\n ", 1, std::nullopt),
            " {\"id_slot\":7, \"b\":{}\n,\"id_slot\":1}\n ");
  EXPECT_EQ(AddSlot(R"({"s":"}"})", 1, std::nullopt), R"({"s":"}","id_slot":1})");
}

}  // namespace
}  // namespace ember::agent
