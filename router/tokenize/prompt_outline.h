// PromptOutline: what a request's prompt depends on, read from its body without parsing or copying
// the long texts in it: they are views of the body ("slots"), and marks stand for them.
//
// Pure, linear in the body, bounded in depth, safe on any bytes; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "router/tokenize/model_tokenizer.h"

namespace ember::router {

// Whose texts may be slots: roles, as bits.
inline constexpr uint32_t kSystemRole = 1;
inline constexpr uint32_t kUserRole = 2;
inline constexpr uint32_t kAssistantRole = 4;
inline constexpr uint32_t kToolRole = 8;
inline constexpr uint32_t kAllRoles = 15;

struct PromptOutline {
  std::string model;      // empty: the body names none
  std::string lora_path;  // SGLang's name of an adapter
  std::string salt;       // cache_salt
  // JSON for ModelTokenizer::Render: the members that matter, marks for the slots. Not for
  // completions.
  std::string request;
  // Raw text (json_text.h) of the body. For a completion: its prompt, if that is text.
  std::vector<std::string_view> slots;
  std::vector<TokenId> ids;  // a completion's prompt, if that is ids
  bool add_special_tokens = false;
  // Logprobs of the prompt are asked for: an engine computes all of it, whatever it has cached.
  bool prompt_logprobs = false;
  // Other prompts are computed with this one, or several answers to it.
  bool several = false;
  // Engines may make another prompt of it than this, or do where it is long.
  bool doubtful = false;
  // A prompt of more tokens is another one: the engine leaves out some.
  uint64_t most_tokens = UINT64_MAX;

  // Of several prompts of a completion the first counts. `roles`: whose texts may be slots.
  // `enough`: what is wanted is a text to be compared with others', about so much of each member.
  // Then `request` is no JSON: it has the members in an order of ours, whatever the body's is, cut,
  // and a hash, the same in every process, where else null stands for large data.
  static PromptReason Of(PromptApi api, std::string_view body, uint32_t roles, PromptOutline* out,
                         size_t enough = std::string::npos);
};

}  // namespace ember::router
