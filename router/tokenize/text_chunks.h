// The last resort where nobody can tell a prompt's tokens: four bytes of its text stand for each,
// so that requests with equal beginnings are still known by them. Pure; any thread.
#pragma once

#include <memory>
#include <string_view>

#include "router/tokenize/prompt_outline.h"
#include "router/tokenize/tokenized_prompt.h"

namespace ember::router {

// Null when the body has no prompt that can be found. A completion's ids are its tokens (kLocal).
std::shared_ptr<TokenizedPrompt> TextChunksOf(PromptApi api, std::string_view body);

}  // namespace ember::router
