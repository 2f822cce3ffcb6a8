#include "router/tokenize/prompt_digest.h"

#include <algorithm>
#include <array>
#include <string>

#include "router/tokenize/json_cursor.h"
#include "router/tokenize/local_tokenizer.h"

namespace ember::router {
namespace {

// Of all APIs that engines serve: generation, embeddings, scores.
constexpr std::array<std::string_view, 27> kSeen = {
    "model",        "lora_path",     "prompt",
    "suffix",       "messages",      "input",
    "system",       "tools",         "functions",
    "instructions", "documents",     "previous_response_id",
    "query",        "queries",       "text",
    "text_1",       "text_2",        "items",
    "input_ids",    "tokens",        "content",
    "image_data",   "prompt_embeds", "chat_template",
    "template",     "reasoning",     "chat_template_kwargs"};

}  // namespace

Checksum PromptDigestOf(std::string_view path, std::string_view body) {
  std::array<std::string_view, kSeen.size()> values;
  std::string name;
  JsonCursor json(body);
  // A larger body is not looked into on the event loop: it counts as it is.
  const bool whole =
      body.size() <= LocalTokenizer::kLargeBody && json.Object([&](std::string_view raw) {
        const auto seen = std::ranges::find(kSeen, MeaningOfName(raw, &name));
        std::string_view value;
        if (!json.TakeValue(&value)) return false;
        if (seen == kSeen.end()) return true;
        if (value == "null") value = {};
        values[static_cast<size_t>(seen - kSeen.begin())] = value;  // of equal names the last
        return true;
      });
  // A model alone is no prompt.
  const bool any = whole && std::any_of(values.begin() + 2, values.end(),
                                        [](std::string_view v) { return !v.empty(); });
  ChecksumStream digest;
  const auto add = [&](std::string_view part) {
    const uint64_t size = part.size();
    digest.Update(AsBytes(std::string_view(reinterpret_cast<const char*>(&size), sizeof size)));
    digest.Update(AsBytes(part));
  };
  add(path);
  if (!any) {
    add(body);
  } else {
    for (const std::string_view value : values) add(value);
  }
  return digest.Digest();
}

}  // namespace ember::router
