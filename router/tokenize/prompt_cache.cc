#include "router/tokenize/prompt_cache.h"

#include <utility>

namespace ember::router {

Checksum PromptCache::DigestOf(std::string_view path, std::string_view body) {
  ChecksumStream digest;
  digest.Update(AsBytes(path));
  digest.Update(AsBytes(std::string_view("\0", 1)));
  digest.Update(AsBytes(body));
  return digest.Digest();
}

SharedPrompt PromptCache::Find(const Checksum& digest) {
  const auto it = entries_.find(digest);
  if (it == entries_.end()) return nullptr;
  use_.splice(use_.begin(), use_, it->second.use);
  return it->second.prompt;
}

void PromptCache::Put(const Checksum& digest, SharedPrompt prompt) {
  if (const auto it = entries_.find(digest); it != entries_.end()) Erase(it);
  bytes_ += CostOf(*prompt);
  use_.push_front(digest);
  entries_.emplace(digest, Entry{std::move(prompt), use_.begin()});
  while (bytes_ > max_bytes_) Erase(entries_.find(use_.back()));
}

void PromptCache::Clear() {
  entries_.clear();
  use_.clear();
  bytes_ = 0;
}

size_t PromptCache::CostOf(const TokenizedPrompt& prompt) {
  constexpr size_t kOverhead = 256;  // map node, list node, control block
  // What it costs must never change: of chains that are made later, a guess.
  constexpr size_t kTokenBytes = 2 * sizeof(TokenId);
  return kOverhead + prompt.chain.size() * sizeof(BlockHash) + prompt.tokens.size() * kTokenBytes;
}

void PromptCache::Erase(std::map<Checksum, Entry>::iterator it) {
  bytes_ -= CostOf(*it->second.prompt);
  use_.erase(it->second.use);
  entries_.erase(it);
}

}  // namespace ember::router
