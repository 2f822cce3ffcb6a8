// PromptCache: tokenized prompts by the digest of path and body, least recently used out first.
// Bounded by what the chains take. One thread.
#pragma once

#include <list>
#include <map>
#include <string_view>

#include "proto/base/checksum.h"
#include "router/tokenize/tokenizer.h"

namespace ember::router {

class PromptCache {
 public:
  explicit PromptCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  // XXH3-128: whoever crafts a collision gets a poor route for it, nothing else.
  static Checksum DigestOf(std::string_view path, std::string_view body);
  // Null when it is not there.
  SharedPrompt Find(const Checksum& digest);
  void Put(const Checksum& digest, SharedPrompt prompt);
  void Clear();
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    SharedPrompt prompt;
    std::list<Checksum>::iterator use;
  };
  static size_t CostOf(const TokenizedPrompt& prompt);
  void Erase(std::map<Checksum, Entry>::iterator it);

  const size_t max_bytes_;
  size_t bytes_ = 0;
  std::map<Checksum, Entry> entries_;
  std::list<Checksum> use_;  // most recently used first
};

}  // namespace ember::router
