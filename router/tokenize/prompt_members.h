// The members of a request that a chat's prompt is made of, in the order in which its text has
// them: what changes all of it comes first, what changes only its end comes last.
#pragma once

#include <array>
#include <string_view>

#include "router/tokenize/prompt_api.h"

namespace ember::router {

inline constexpr size_t kSystemPlace = 5;
inline constexpr size_t kMessagesPlace = 8;  // behind it are flags
using MemberNames = std::array<std::string_view, 11>;

inline MemberNames MembersOf(PromptApi api) {
  const bool responses = api == PromptApi::kResponses, claude = api == PromptApi::kAnthropic;
  return {"chat_template",
          "chat_template_kwargs",
          "previous_response_id",
          claude ? "output_config" : "reasoning_effort",
          claude ? "thinking" : "reasoning",
          responses ? "instructions" : "system",
          "documents",
          "tools",
          responses ? "input" : "messages",
          "add_generation_prompt",
          "continue_final_message"};
}

}  // namespace ember::router
