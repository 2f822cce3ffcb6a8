// PromptChanges: what of a request's members, beside those that its prompt is made of, makes
// another prompt of it, or other counts in the reply. Engines' parameters, OpenAI's among them.
//
// A plain value; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace ember::router {

class PromptChanges {
 public:
  // `value`: as the body has it. Of equal names the last counts, as in engines. False: it is none.
  static bool Has(std::string_view name);
  void Set(std::string_view name, std::string_view value);

  // The prompt is not, or not only, what the members say that carry it: nobody else knows it.
  bool another() const { return Any(Effect::kAnother); }
  // It may be another one in some engines, or where it is long.
  bool doubtful() const { return Any(Effect::kDoubtful) || whole_context_; }
  // All of it is computed, whatever is cached.
  bool uncached() const { return Any(Effect::kUncached); }
  bool several() const { return Any(Effect::kSeveral); }
  // Of more tokens than these the engine leaves out some.
  uint64_t most_tokens() const { return most_tokens_; }

 private:
  enum class Effect : uint8_t { kAnother, kDoubtful, kUncached, kSeveral };
  struct Member {
    std::string_view name;
    Effect effect;
    // Values that say something and change nothing. Any other way to write them may mean more.
    std::array<std::string_view, 2> usual;
  };
  static constexpr std::array<Member, 11> kMembers = {{
      {"suffix", Effect::kAnother, {}},  // SGLang puts both into a template of its own
      {"prompt_embeds", Effect::kAnother, {}},
      {"input_ids", Effect::kAnother, {}},
      {"input_embeds", Effect::kAnother, {}},
      {"session_params", Effect::kAnother, {}},
      {"previous_input_messages", Effect::kAnother, {}},
      {"extra_key", Effect::kAnother, {}},                  // SGLang's other salt
      {"truncation", Effect::kDoubtful, {"\"disabled\""}},  // to the model's context
      // SGLang leaves out the tools that can't be called then.
      {"tool_choice", Effect::kDoubtful, {"\"auto\"", "\"required\""}},
      {"cache_prompt", Effect::kUncached, {}},  // llama.cpp's; false
      {"use_beam_search", Effect::kSeveral, {}},
  }};

  bool Any(Effect effect) const;

  std::array<bool, kMembers.size()> set_{};
  uint64_t most_tokens_ = std::numeric_limits<uint64_t>::max();
  bool whole_context_ = false;  // truncated to what the model takes
};

}  // namespace ember::router
