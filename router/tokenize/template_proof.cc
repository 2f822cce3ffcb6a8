#include "router/tokenize/template_proof.h"

#include <string>
#include <string_view>
#include <vector>

#include "router/tokenize/json_text.h"
#include "router/tokenize/prompt_renderer.h"

namespace ember::router {
namespace {

// Texts with all that a template might look at or change, as they stand in JSON. Each is long
// enough for a slot.
constexpr std::string_view kTexts[] = {
    R"(A plain text of one line that says nothing special but goes on for long enough to count.)",
    R"(  Blank at both ends, "quoted", <tag> & </tag>, {{ x }} {% y %}, C:\\dir\tTab, 100 % \u00e9\u4f60\ud83d\ude00.  \n)",
    R"(Lines\nof\n\n  text\r\nwith UPPER and lower CASE, 'single', numbers 1234567890 and | pipes | in | it.\n\n)",
    R"(1. [link](http://a.b/c?d=e&f=g) `code` ```\nblock\n``` ***** ----- _____ ,,,,, ;;;;; ::::: !!!!! ?????)"};
// A template may cut off what is long.
constexpr size_t kLongText = 4096;
constexpr std::string_view kRoles[] = {"system", "user", "assistant", "tool"};
constexpr std::string_view kTools =
    R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"x":{"type":"string"}}}}}])";

std::vector<std::string> Texts() {
  std::vector<std::string> texts(std::begin(kTexts), std::end(kTexts));
  std::string& longest = texts.emplace_back();
  while (longest.size() < kLongText) longest += kTexts[0];
  return texts;
}

std::string Message(std::string_view role, std::string_view text, bool parts) {
  std::string out = "{\"role\":\"" + std::string(role) + "\",";
  if (role == "tool") out += "\"tool_call_id\":\"c\",";
  const std::string content = "\"" + std::string(text) + "\"";
  out += parts ? "\"content\":[{\"type\":\"text\",\"text\":" + content + "}]}"
               : "\"content\":" + content + "}";
  return out;
}

// The text of a prompt, whole.
PromptReason TextOf(const ModelTokenizer& tokenizer, const std::string& body, uint32_t roles,
                    std::string* out) {
  PromptOutline outline;
  PromptReason reason = PromptOutline::Of(PromptApi::kChat, body, roles, &outline);
  if (reason != PromptReason::kNone) return reason;
  const RenderedPrompt rendered = RenderedPrompt::Of(tokenizer, PromptApi::kChat, outline);
  for (const PromptPiece& piece : rendered.PiecesWith(outline.slots)) {
    if (!piece.raw) {
      *out += piece.text;
    } else if (!Unescape(piece.text, out)) {
      return PromptReason::kInvalid;
    }
  }
  return rendered.reason;
}

// What the conversation is in which a text of a role is tried.
struct Trial {
  bool parts, tools, tool_calls, generation, last;
};

std::string Body(size_t role, std::string_view text, const Trial& trial) {
  std::string messages = "[";
  const auto add = [&](const std::string& message) {
    if (messages.size() > 1) messages += ',';
    messages += message;
  };
  const auto call = [&] {
    add(R"({"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"x\":\"y\"}"}}]})");
  };
  if (role == 0) add(Message("system", text, trial.parts));
  add(Message("user", role == 1 ? text : "Short.", trial.parts));
  if (role == 3 || trial.tool_calls) {
    call();
    add(Message("tool", role == 3 ? text : "{\\\"r\\\":1}", trial.parts));
  }
  if (role == 2) add(Message("assistant", text, trial.parts));
  if (!trial.last) {
    add(Message("user", role == 1 ? text : "More?", false));
  }
  std::string body = "{\"messages\":" + messages + "]";
  if (trial.tools) body += ",\"tools\":" + std::string(kTools);
  if (!trial.generation) body += ",\"add_generation_prompt\":false";
  return body + "}";
}

bool HasAny(const std::string& text, const ModelTokenizer& tokenizer) {
  for (const std::string& literal : tokenizer.literals()) {
    if (text.find(literal) != text.npos) return true;
  }
  return false;
}

bool PrintsAsItIs(const ModelTokenizer& tokenizer, size_t role) {
  int rendered = 0;
  for (const std::string& text : Texts()) {
    std::string meant;
    if (!Unescape(text, &meant) || HasAny(meant, tokenizer)) continue;
    for (int bits = 0; bits < 32; ++bits) {
      const std::string body = Body(
          role, text,
          {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0, (bits & 16) != 0});
      std::string with_texts, with_marks;
      const PromptReason a = TextOf(tokenizer, body, 0, &with_texts);
      const PromptReason b = TextOf(tokenizer, body, kAllRoles, &with_marks);
      if (a != b || with_texts != with_marks) return false;
      rendered += a == PromptReason::kNone ? 1 : 0;
    }
  }
  return rendered > 0;
}

}  // namespace

uint32_t ProvenSlotRoles(const ModelTokenizer& tokenizer) {
  if (!tokenizer.has_template() || tokenizer.template_is_opaque()) return 0;
  uint32_t proven = 0;
  for (size_t role = 0; role < std::size(kRoles); ++role) {
    if (PrintsAsItIs(tokenizer, role)) proven |= 1u << role;
  }
  return proven;
}

}  // namespace ember::router
