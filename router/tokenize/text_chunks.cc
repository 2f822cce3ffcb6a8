#include "router/tokenize/text_chunks.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ember::router {
namespace {

constexpr size_t kMaxText = 256u << 10;  // more of it tells nothing new

}  // namespace

std::shared_ptr<TokenizedPrompt> TextChunksOf(PromptApi api, std::string_view body) {
  PromptOutline outline;
  if (PromptOutline::Of(api, body, 0, &outline, kMaxText) != PromptReason::kNone) return nullptr;
  auto prompt = std::make_shared<TokenizedPrompt>();
  prompt->source = outline.ids.empty() ? TokenSource::kText : TokenSource::kLocal;
  prompt->model = std::move(outline.model);
  prompt->lora_path = std::move(outline.lora_path);
  prompt->salt = std::move(outline.salt);
  prompt->prompt_logprobs = outline.prompt_logprobs;
  prompt->several = outline.several;
  // How many tokens it has is a guess.
  const bool may_be_cut = outline.ids.empty() && outline.most_tokens != UINT64_MAX;
  prompt->doubtful = outline.doubtful || may_be_cut;
  prompt->tokens = std::move(outline.ids);
  if (prompt->tokens.empty()) {
    // The messages are last in it: a longer chat begins with the same bytes.
    std::string_view text = outline.slots.empty() ? outline.request : outline.slots.front();
    text = text.substr(0, kMaxText);
    prompt->tokens.resize(text.size() / sizeof(TokenId));
    if (!prompt->tokens.empty()) {
      std::memcpy(prompt->tokens.data(), text.data(), prompt->tokens.size() * sizeof(TokenId));
    }
  }
  if (prompt->tokens.size() > outline.most_tokens) return nullptr;
  prompt->token_count = static_cast<uint32_t>(prompt->tokens.size());
  return prompt;
}

}  // namespace ember::router
