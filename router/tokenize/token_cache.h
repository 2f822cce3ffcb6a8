// TokenCache: the tokens of texts that prompts have begun with, by the names of TextWalk. Looked up
// from the longest known beginning on, so that a long chat costs its new tail.
//
// Bounded in bytes, what prompts in flight still hold included. Concurrency: the router's loop
// thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "proto/base/digest_lru.h"
#include "router/tokenize/text_walk.h"
#include "router/tokenize/token_run.h"

namespace ember::router {

// What is known at a place of a text: tokens up to the last place where it may be cut, and the text
// after that.
struct KnownText {
  std::shared_ptr<const TokenRun> run;      // null: no token yet
  std::shared_ptr<const TokenRun> stretch;  // the run at the end of the last stretch before
  std::string pending;                      // not tokenized yet
  std::string last_of_slot;                 // of the slot's text that ends here, for literals
};

class TokenCache {
 public:
  explicit TokenCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  // The longest known beginning that ends with a stretch: how many stretches (0: none; `out` is
  // left alone).
  size_t FindStretch(const TextWalk& walk, KnownText* out);
  // Of the steps before the first stretch's end in `spans`, the last known: how many spans it
  // covers.
  size_t FindStep(std::span<const TextSpan> spans, KnownText* out);
  bool Find(const Checksum& name, KnownText* out);
  // `end` is where a step or a stretch ends that follows `known`, with these tokens since then.
  // `known` becomes what is known there.
  void Extend(const TextSpan& end, std::vector<TokenId> tokens, std::string pending,
              std::string last_of_slot, KnownText* known);
  // A text that can't be cut, with all its tokens.
  void PutWhole(const Checksum& name, std::vector<TokenId> tokens, KnownText* known);
  void Clear();

  size_t bytes() const { return *ledger_; }
  size_t max_bytes() const { return max_bytes_; }
  size_t places() const { return known_.size(); }

 private:
  void Put(const Checksum& name, KnownText known);
  static size_t CostOf(const KnownText& known);
  void DropOldest();

  const size_t max_bytes_;
  const TokenRun::Ledger ledger_ = std::make_shared<size_t>(0);
  DigestLru<KnownText> known_;
};

}  // namespace ember::router
