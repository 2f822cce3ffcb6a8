// Which paths of the door carry a prompt, and in which API's words.
#pragma once

#include <optional>
#include <string_view>

#include "router/tokenize/model_tokenizer.h"

namespace ember::router {

// Nothing: a path whose requests use no prefix cache (embeddings, rerank, audio) or none at all.
inline std::optional<PromptApi> PromptApiOf(std::string_view path) {
  if (path == "/v1/chat/completions") return PromptApi::kChat;
  if (path == "/v1/completions") return PromptApi::kCompletion;
  if (path == "/v1/responses") return PromptApi::kResponses;
  if (path == "/v1/messages") return PromptApi::kAnthropic;
  return std::nullopt;
}

}  // namespace ember::router
