// TokenRun: a stretch of a prompt's tokens that many prompts share, after the run before it. Its
// tokens never change; the hashes of its blocks are computed when first asked for and then kept.
//
// Concurrency: the router's loop thread. Ownership: shared by the cache and by the prompts in
// flight; a run keeps those before it alive.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "proto/model/block_hash.h"
#include "proto/model/key_space.h"

namespace ember::router {

class TokenRun {
 public:
  // What all runs of a cache take, those that only prompts in flight still hold included.
  using Ledger = std::shared_ptr<size_t>;

  TokenRun(std::shared_ptr<const TokenRun> parent, std::vector<TokenId> tokens, Ledger ledger);
  ~TokenRun();
  TokenRun(const TokenRun&) = delete;
  TokenRun& operator=(const TokenRun&) = delete;

  const std::shared_ptr<const TokenRun>& parent() const { return parent_; }
  std::span<const TokenId> tokens() const { return tokens_; }
  size_t begin() const { return parent_ == nullptr ? 0 : parent_->end_; }
  size_t end() const { return end_; }  // tokens of the prompt up to the end of this run

 private:
  friend class RunChain;
  struct Hashes {
    KeySpace space;
    std::vector<BlockHash> blocks;  // those that end inside this run
  };

  const std::shared_ptr<const TokenRun> parent_;
  const std::vector<TokenId> tokens_;
  const size_t end_;
  const Ledger ledger_;
  mutable std::vector<Hashes> hashes_;  // a few spaces; the oldest makes room
  mutable size_t charged_ = 0;
};

// The runs of one prompt, from its start, and the tokens after them.
class RunChain {
 public:
  RunChain(const TokenRun* last, std::span<const TokenId> tail);
  std::vector<TokenId> Tokens() const;
  // The whole blocks' hashes.
  std::vector<BlockHash> Hash(const KeySpace& space) const;

 private:
  const std::vector<BlockHash>& HashesOf(const TokenRun& run, const KeySpace& space,
                                         const std::vector<BlockHash>& before) const;
  // The whole blocks that end in `tokens`, which start at `begin`, after the blocks `before`.
  std::vector<BlockHash> BlocksIn(const TokenRun* parent, std::span<const TokenId> tokens,
                                  const KeySpace& space,
                                  const std::vector<BlockHash>& before) const;

  std::vector<const TokenRun*> runs_;
  std::span<const TokenId> tail_;
};

}  // namespace ember::router
