#include "router/tokenize/tokenized_prompt.h"

#include <array>

namespace ember::router {

const char* TokenSourceName(TokenSource source) {
  static constexpr std::array<const char*, kTokenSources> kNames = {"local", "agent", "engine",
                                                                    "text"};
  return kNames[static_cast<size_t>(source)];
}

std::vector<TokenId> TokenizedPrompt::AllTokens() const {
  return RunChain(prefix.get(), tokens).Tokens();
}

const std::vector<BlockHash>& TokenizedPrompt::ChainIn(const KeySpace& space) const {
  static const std::vector<BlockHash> kUnknown;
  if (!has_tokens()) return !chain.empty() && space.id == ns ? chain : kUnknown;
  for (const auto& [known, hashes] : chains) {
    if (known == space) return hashes;
  }
  return chains.emplace_back(space, RunChain(prefix.get(), tokens).Hash(space)).second;
}

}  // namespace ember::router
