// TokenizedPrompt: what is known of a request's prompt: its tokens, or an agent's answer, and the
// chain of block hashes that each holder would name it by.
//
// Known are the tokens up to the first part that is no text (an image): only that much can match.
// Concurrency: the router's loop thread; ChainIn remembers what it computed.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "router/tokenize/token_run.h"

namespace ember::router {

enum class TokenSource : uint8_t {
  kLocal,   // tokenized in process, or ids as the client gave them
  kAgent,   // an agent's answer
  kEngine,  // an engine's answer
  kText,    // no tokens but four bytes of the text each: good for what this router itself remembers
};
inline constexpr size_t kTokenSources = 4;
const char* TokenSourceName(TokenSource source);  // "local"

struct TokenizedPrompt {
  uint32_t token_count = 0;
  TokenSource source = TokenSource::kAgent;
  std::string model{};           // as the request names it; empty: it names none
  std::string adapter{};         // that it asks for; empty: none that is known
  bool adapter_known = false;    // so that an empty one is none
  std::string lora_path{};       // SGLang's way to ask for one
  std::string salt{};            // cache_salt
  bool prompt_logprobs = false;  // are asked for, so that the engine computes all of it
  // Other prompts are computed with this one, or several answers to it: what the reply counts is
  // their sum, or the last one's, to whom the first one's blocks are a hit.
  bool several = false;
  bool doubtful = false;  // an engine may have made another prompt of the request
  // An agent's answer: the whole blocks' hashes in its namespace. Empty when the tokens are known.
  NamespaceId ns{};
  std::vector<BlockHash> chain{};
  // The tokens, when known: those of `prefix`, which other prompts share, then `tokens`.
  std::shared_ptr<const TokenRun> prefix{};
  std::vector<TokenId> tokens{};
  // What ChainIn has computed.
  mutable std::list<std::pair<KeySpace, std::vector<BlockHash>>> chains{};

  // As ModelDirectory::AdapterOf has it.
  void SetAdapter(std::optional<std::string_view> asked) {
    adapter = asked.value_or("");
    adapter_known = asked.has_value();
  }
  bool has_tokens() const { return prefix != nullptr || !tokens.empty(); }
  // Whether the engine's count of cached tokens says how much of this prompt it had.
  bool counted_alone() const { return !prompt_logprobs && !several && !doubtful; }
  // A copy of all of them; the common way is ChainIn.
  std::vector<TokenId> AllTokens() const;
  // The whole blocks' hashes as `space` names them; empty when that can't be known. The reference
  // is good for as long as the prompt.
  const std::vector<BlockHash>& ChainIn(const KeySpace& space) const;
};

using SharedPrompt = std::shared_ptr<const TokenizedPrompt>;

}  // namespace ember::router
