// What of a request reaches the model, told apart from what else it asks.
#include "router/tokenize/prompt_digest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ember::router {
namespace {

constexpr char kPath[] = "/v1/chat/completions";

TEST(PromptDigest, IsOfThePromptWhateverElseIsAsked) {
  for (const std::vector<std::string>& equal : std::vector<std::vector<std::string>>{
           {R"({"messages":[{"role":"user","content":"a"}]})",
            R"({"messages":[{"role":"user","content":"a"}],"seed":1,"user":"u","n":2})",
            R"( { "stream" : true , "messages" : [{"role":"user","content":"a"}] , "x":[{}] } )",
            R"({"messages":[{"role":"user","content":"a"}],"tools":null})",
            R"({"messages":[],"messages":[{"role":"user","content":"a"}]})",
            R"({"m\u0065ssages":[{"role":"user","content":"a"}]})"},
           {R"({"model":"m","prompt":"a","temperature":0})",
            R"({"max_tokens":3,"prompt":"a","model":"m"})"},
           {R"({"input":["a"]})", R"({"input":["a"],"dimensions":3})"},
           {R"({"query":"a","documents":["b"]})", R"({"documents":["b"],"top_n":1,"query":"a"})"},
           {R"({"input_ids":[1,2]})", R"({"input_ids":[1,2],"sampling_params":{"seed":1}})"}}) {
    for (const std::string& body : equal) {
      EXPECT_EQ(PromptDigestOf(kPath, body), PromptDigestOf(kPath, equal.front())) << body;
    }
  }
}

TEST(PromptDigest, OfALargeBodyIsOfTheWhole) {
  const std::string prompt = R"({"prompt":")" + std::string(1 << 20, 'a');
  EXPECT_NE(PromptDigestOf("/", prompt + R"("})"), PromptDigestOf("/", prompt + R"(","seed":1})"));
}

TEST(PromptDigest, DiffersWithAllThatReachesTheModel) {
  const std::vector<std::string> bodies = {
      "",
      "{}",
      "[]",
      "{\"n\":1}",
      "{\"n\":2}",
      "{\"model\":\"m\",\"n\":1}",
      "{\"model\":\"m\",\"n\":2}",
      "audio",
      R"({"prompt":"a"})",
      R"({"prompt":"b"})",
      R"({"prompt":"a","suffix":"b"})",
      R"({"prompt":"a","model":"m"})",
      R"({"prompt":"a","model":"n"})",
      R"({"prompt":"a","lora_path":"m"})",
      R"({"prompt":["a"]})",
      R"({"input":"a"})",
      R"({"text":"a"})",
      R"({"messages":"a"})",
      R"({"messages":"a","tools":[1]})",
      R"({"messages":"a","tools":[2]})",
      R"({"messages":"a","system":"s"})",
      R"({"messages":"a","chat_template_kwargs":{"k":1}})",
      R"({"prompt":"a","seed":1)",
      R"({"prompt":"a","seed":2)",  // no JSON
  };
  for (size_t i = 0; i < bodies.size(); ++i) {
    EXPECT_NE(PromptDigestOf("/v1/completions", bodies[i]), PromptDigestOf(kPath, bodies[i]));
    for (size_t k = 0; k < i; ++k) {
      EXPECT_NE(PromptDigestOf(kPath, bodies[i]), PromptDigestOf(kPath, bodies[k]))
          << bodies[i] << " " << bodies[k];
    }
  }
}

}  // namespace
}  // namespace ember::router
