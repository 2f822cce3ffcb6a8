#include "router/tokenize/prompt_changes.h"

#include <algorithm>
#include <charconv>

namespace ember::router {
namespace {

constexpr std::string_view kTruncate = "truncate_prompt_tokens";

bool Says(std::string_view value) {
  for (const std::string_view nothing : {"null", "false", "\"\"", "[]", "{}"}) {
    if (value == nothing) return false;
  }
  return true;
}

}  // namespace

bool PromptChanges::Has(std::string_view name) {
  return name == kTruncate || std::ranges::find(kMembers, name, &Member::name) != kMembers.end();
}

void PromptChanges::Set(std::string_view name, std::string_view value) {
  if (name == kTruncate) {
    most_tokens_ = std::numeric_limits<uint64_t>::max();
    whole_context_ = value == "-1";
    if (!Says(value) || whole_context_) return;
    // Engines take numbers in quotes and with a point, too: what is none is not known.
    if (value.starts_with('"') && value.ends_with('"')) value = value.substr(1, value.size() - 2);
    const auto [end, error] =
        std::from_chars(value.data(), value.data() + value.size(), most_tokens_);
    if (error != std::errc() || end != value.data() + value.size()) most_tokens_ = 0;
    return;
  }
  const auto member = std::ranges::find(kMembers, name, &Member::name);
  if (member == kMembers.end()) return;
  const bool usual = std::ranges::find(member->usual, value) != member->usual.end();
  set_[static_cast<size_t>(member - kMembers.begin())] =
      member->effect == Effect::kUncached ? value == "false" : Says(value) && !usual;
}

bool PromptChanges::Any(Effect effect) const {
  for (size_t i = 0; i < kMembers.size(); ++i) {
    if (set_[i] && kMembers[i].effect == effect) return true;
  }
  return false;
}

}  // namespace ember::router
