// Prompts are those that transformers renders (data/rendered.json), and shortcuts are used only
// where they may be.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "router/tokenize/cut_points.h"
#include "router/tokenize/prompt_outline.h"
#include "router/tokenize/template_proof.h"
#include "tests/unit/router_tokenize/model_folder.h"

namespace ember::router {
namespace {

using nlohmann::ordered_json;

TEST(Template, RendersWhatTransformersRenders) {  // D33
  std::ifstream file("tests/unit/router_tokenize/data/rendered.json");
  ASSERT_TRUE(file) << "run from the source root";
  const ordered_json cases = ordered_json::parse(file);
  ASSERT_GT(cases.size(), 20u);
  std::map<std::string, std::shared_ptr<const ModelTokenizer>> models;
  for (const ModelKind& kind : ModelKinds()) {
    if (kind.vocabulary == "byte_level") models[kind.chat_template] = ModelFolder(kind).Load(false);
  }
  for (const ordered_json& c : cases) {
    const auto name = c["template"].get<std::string>();
    PromptOutline outline;
    ASSERT_EQ(PromptOutline::Of(PromptApi::kChat, c["request"].dump(), 0, &outline),
              PromptReason::kNone);
    ModelTokenizer::Rendered rendered;
    const PromptReason reason =
        models.at(name)->Render(PromptApi::kChat, outline.request, &rendered);
    if (c["prompt"].is_null()) {
      EXPECT_EQ(reason, PromptReason::kTemplate) << name << c["request"].dump();
    } else {
      ASSERT_EQ(reason, PromptReason::kNone) << name << c["request"].dump();
      EXPECT_EQ(rendered.text, c["prompt"].get<std::string>()) << name;
    }
  }
}

TEST(Template, RendersEachApiAsVllmDoes) {  // D33
  std::ifstream file("tests/unit/router_tokenize/data/vllm_rendered.json");
  ASSERT_TRUE(file) << "run from the source root";
  const ordered_json cases = ordered_json::parse(file);
  ASSERT_GT(cases.size(), 200u);
  const std::map<std::string, PromptApi> apis = {{"chat", PromptApi::kChat},
                                                 {"responses", PromptApi::kResponses},
                                                 {"messages", PromptApi::kAnthropic}};
  std::map<std::string, std::shared_ptr<const ModelTokenizer>> models;
  for (const ordered_json& c : cases) {
    const auto name = c["template"].get<std::string>();
    auto& model = models[name];
    if (model == nullptr) {
      model = ModelFolder({"vllm", "byte_level", "", false, name}).Load(false);
      ASSERT_NE(model, nullptr) << name;
    }
    PromptOutline outline;
    const PromptApi api = apis.at(c["api"].get<std::string>());
    ModelTokenizer::Rendered rendered;
    PromptReason reason = PromptOutline::Of(api, c["request"].dump(), 0, &outline);
    if (reason == PromptReason::kNone) reason = model->Render(api, outline.request, &rendered);
    if (c["prompt"].is_null()) {
      EXPECT_NE(reason, PromptReason::kNone) << name << c["request"].dump();
    } else {
      EXPECT_EQ(reason, PromptReason::kNone) << name << c["request"].dump();
      EXPECT_EQ(rendered.text, c["prompt"].get<std::string>()) << name << c["request"].dump();
    }
  }
}

// Exact, or not at all: Python's integers have any size, and it reads what is no JSON.
TEST(Template, WhatOnlyPythonReadsIsNotRendered) {  // D33
  const auto model = ModelFolder(KindNamed("gpt4")).Load(false);
  const auto render = [&](const std::string& arguments, const std::string& maximum) {
    const ordered_json call = {
        {"id", "c"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", arguments}}}};
    const std::string tool =
        R"({"type":"function","function":{"name":"f","parameters":{"maximum":)" + maximum + "}}}";
    const std::string body =
        R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[)" +
        call.dump() + R"(]},{"role":"tool","tool_call_id":"c","content":"b"}],"tools":[)" + tool +
        "]}";
    PromptOutline outline;
    EXPECT_EQ(PromptOutline::Of(PromptApi::kChat, body, 0, &outline), PromptReason::kNone);
    ModelTokenizer::Rendered rendered;
    return std::string(
        PromptReasonName(model->Render(PromptApi::kChat, outline.request, &rendered)));
  };
  EXPECT_EQ(render(R"({"n":18446744073709551615})", "-1"), "none");
  EXPECT_EQ(render(R"({"n":18446744073709551615)", "1e300"), "none") << "an object for nobody";
  for (const char* other : {R"({"n":18446744073709551616})", R"({"n":NaN})", R"({"n":1e400})"}) {
    EXPECT_EQ(render(other, "1"), "unsupported") << other;
  }
  EXPECT_EQ(render("{}", "123456789012345678901234567890"), "unsupported");
  EXPECT_EQ(render("{}", "NaN"), "invalid");
}

TEST(Template, ShortcutsAreThoseThatThisModelAllows) {
  const auto model = [](const char* name) { return ModelFolder(KindNamed(name)).Load(false); };
  EXPECT_EQ(ProvenSlotRoles(*model("gpt2")), kAllRoles);
  EXPECT_EQ(ProvenSlotRoles(*model("gpt4")), kAllRoles & ~kToolRole)
      << "prints tools' results as JSON";
  EXPECT_EQ(ProvenSlotRoles(*model("changing")), kAllRoles & ~kUserRole)
      << "writes users' texts in capitals";
  const auto thinking = model("qwen");
  EXPECT_EQ(ProvenSlotRoles(*thinking), kAllRoles);
  EXPECT_TRUE(std::count(thinking->literals().begin(), thinking->literals().end(), "</think>"));
  for (const char* name : {"gpt2", "gpt4", "qwen", "o200k"}) {
    EXPECT_EQ(model(name)->cuts(), kAllCuts) << name;
    EXPECT_TRUE(model(name)->fast()) << name;
  }
  EXPECT_EQ(model("sentencepiece")->cuts(), 0u) << "every text of its own begins with a space";
}

TEST(Template, FoldersThatAreNoModelsAreRefused) {
  EXPECT_EQ(ModelTokenizer::Load("/nonexistent").status().code(), StatusCode::kInvalid);
  const ModelFolder folder(KindNamed("gpt2"));
  std::ofstream(folder.path() + "/tokenizer.json") << "{\"model\":{}}";
  EXPECT_EQ(ModelTokenizer::Load(folder.path()).status().code(), StatusCode::kInvalid);
  std::ofstream(folder.path() + "/tokenizer_config.json") << R"({"chat_template":"{% if %}"})";
  EXPECT_FALSE(ModelTokenizer::Load(folder.path()).ok());
}

PromptReason Render(const ModelTokenizer& model, PromptApi api, std::string_view body,
                    ModelTokenizer::Rendered* out) {
  PromptOutline outline;
  const PromptReason reason = PromptOutline::Of(api, body, 0, &outline);
  return reason != PromptReason::kNone ? reason : model.Render(api, outline.request, out);
}

TEST(Template, OtherApisBecomeTheSameChat) {
  const auto model = ModelFolder(KindNamed("qwen")).Load(false);
  ModelTokenizer::Rendered chat, other;
  ASSERT_EQ(
      Render(
          *model, PromptApi::kChat,
          R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":"Q"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},{"role":"tool","tool_call_id":"c","content":"R"}],"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"x"}}}]})",
          &chat),
      PromptReason::kNone);
  ASSERT_EQ(
      Render(
          *model, PromptApi::kResponses,
          R"({"instructions":"S","input":[{"role":"user","content":[{"type":"input_text","text":"Q"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{\"x\":1}"},{"type":"function_call_output","call_id":"c","output":"R"}],"tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"x"}}]})",
          &other),
      PromptReason::kNone);
  EXPECT_EQ(other.text, chat.text);
  ASSERT_EQ(
      Render(
          *model, PromptApi::kAnthropic,
          R"({"system":[{"type":"text","text":"x-anthropic-billing-header: 1"},{"type":"text","text":"S"}],"messages":[{"role":"user","content":"Q"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"x":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"R"}]}]}],"tools":[{"name":"f","description":"d","input_schema":{"type":"x"}}]})",
          &other),
      PromptReason::kNone);
  EXPECT_EQ(other.text, chat.text);
}

TEST(Template, APromptIsKnownUpToWhatIsNoTextAndReasonsAreTold) {
  const auto model = ModelFolder(KindNamed("gpt2")).Load(false);
  ModelTokenizer::Rendered out;
  ASSERT_EQ(
      Render(
          *model, PromptApi::kChat,
          R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"T"},{"type":"image_url","image_url":{"url":"u"}}]}]})",
          &out),
      PromptReason::kNone);
  EXPECT_TRUE(out.cut);
  EXPECT_EQ(out.text, "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n");
  const auto reason = [&](const char* body, PromptApi api = PromptApi::kChat) {
    return Render(*model, api, body, &out);
  };
  EXPECT_EQ(reason(R"({"messages":[{"role":"user","content":"a"}],"chat_template":"x"})"),
            PromptReason::kRequestTemplate);
  EXPECT_EQ(reason(R"({"messages":[{"role":"user","content":7}]})"), PromptReason::kInvalid);
  EXPECT_EQ(reason(R"({"messages":[{"role":"user","content":"\ud800"}]})"), PromptReason::kInvalid);
  EXPECT_EQ(reason(R"({"input":"a","previous_response_id":"r"})", PromptApi::kResponses),
            PromptReason::kStateful);
  // A tool without parameters, unknown members: nothing is refused (D3).
  EXPECT_EQ(
      reason(
          R"({"x":{},"messages":[{"role":"user","content":"a","y":1}],"tools":[{"function":{"name":"f","z":2},"w":3}]})"),
      PromptReason::kNone);
}

TEST(Template, WhatNoEnginePrintsChangesNothing) {
  const auto model = ModelFolder(KindNamed("qwen")).Load(false);
  const auto text = [&](PromptApi api, const std::string& body) {
    ModelTokenizer::Rendered out;
    EXPECT_EQ(Render(*model, api, body, &out), PromptReason::kNone) << body;
    return out.text;
  };
  const auto chat = [&](const std::string& system) {
    return text(PromptApi::kChat, R"({"messages":[{"role":"system","content":)" + system +
                                      R"(},{"role":"user","content":"Q"}]})");
  };
  const std::string plain = chat(R"("S")");
  EXPECT_EQ(chat(R"("x-anthropic-billing-header: 1\nS")"), plain);
  EXPECT_EQ(chat(R"([{"type":"text","text":"x-anthropic-billing-header: 1"},)"
                 R"({"type":"text","text":"S"}])"),
            plain);
  EXPECT_EQ(text(PromptApi::kResponses, R"({"instructions":"","input":"Q"})"),
            text(PromptApi::kResponses, R"({"input":"Q"})"));
  const auto claude = [&](const std::string& blocks) {
    return text(PromptApi::kAnthropic,
                R"({"messages":[{"role":"user","content":"Q"},{"role":"assistant","content":[)" +
                    blocks + R"({"type":"text","text":"A"}]},{"role":"user","content":"R"}]})");
  };
  EXPECT_EQ(claude(R"({"type":"redacted_thinking","data":"x"},)"), claude(""));
}

}  // namespace
}  // namespace ember::router
