#include "client/agent/prompt_tokenizer.h"

namespace ember::agent {

boost::asio::awaitable<Result<PromptTokenizer::Tokens>> PromptTokenizer::Tokenize(
    const RequestBody& request, std::string_view body) {
  const bool chat = request.kind == CompletionKind::kChat;
  Sha256Digest key = Sha256(AsBytes(chat ? body : std::string_view(request.prompt)));
  key[0] ^= static_cast<std::byte>(request.kind);  // a text prompt may look like a chat's body
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    co_return found->second->tokens;
  }
  const uint64_t epoch = epoch_;
  std::string prompt = request.prompt;
  if (chat) {
    Result<std::string> templated = co_await engine_.ApplyTemplate(body);
    if (!templated.ok()) co_return templated.status();
    prompt = *std::move(templated);
  }
  Result<std::vector<TokenId>> tokens = co_await engine_.Tokenize(prompt);
  if (!tokens.ok()) co_return tokens.status();
  auto shared = std::make_shared<const std::vector<TokenId>>(*std::move(tokens));
  if (epoch == epoch_) Remember(key, shared);
  co_return shared;
}

void PromptTokenizer::Remember(const Sha256Digest& key, Tokens tokens) {
  if (by_key_.contains(key)) return;
  kept_tokens_ += tokens->size();
  entries_.push_front({key, std::move(tokens)});
  by_key_[key] = entries_.begin();
  while (entries_.size() > kMaxEntries || kept_tokens_ > kMaxTokens) {
    kept_tokens_ -= entries_.back().tokens->size();
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

void PromptTokenizer::Forget() {
  ++epoch_;
  entries_.clear();
  by_key_.clear();
  kept_tokens_ = 0;
}

}  // namespace ember::agent
