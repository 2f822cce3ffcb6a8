#include "router/tokenize/token_run.h"

#include <algorithm>
#include <utility>

namespace ember::router {
namespace {

constexpr size_t kSpacesKept = 4;

// The `count` tokens before the end of `run`, across the runs before it.
std::vector<TokenId> LastTokens(const TokenRun* run, size_t count) {
  std::vector<TokenId> out(count);
  while (count > 0) {
    const size_t n = std::min(count, run->tokens().size());
    const auto last = run->tokens().last(n);
    std::copy(last.begin(), last.end(), out.begin() + static_cast<ptrdiff_t>(count - n));
    count -= n;
    run = run->parent().get();
  }
  return out;
}

}  // namespace

TokenRun::TokenRun(std::shared_ptr<const TokenRun> parent, std::vector<TokenId> tokens,
                   Ledger ledger)
    : parent_(std::move(parent)),
      tokens_(std::move(tokens)),
      end_(begin() + tokens_.size()),
      ledger_(std::move(ledger)),
      charged_(sizeof(TokenRun) + tokens_.capacity() * sizeof(TokenId)) {
  *ledger_ += charged_;
}

TokenRun::~TokenRun() { *ledger_ -= charged_; }

RunChain::RunChain(const TokenRun* last, std::span<const TokenId> tail) : tail_(tail) {
  for (const TokenRun* run = last; run != nullptr; run = run->parent().get()) runs_.push_back(run);
  std::reverse(runs_.begin(), runs_.end());
}

std::vector<TokenId> RunChain::Tokens() const {
  std::vector<TokenId> out;
  out.reserve((runs_.empty() ? 0 : runs_.back()->end()) + tail_.size());
  for (const TokenRun* run : runs_) {
    out.insert(out.end(), run->tokens().begin(), run->tokens().end());
  }
  out.insert(out.end(), tail_.begin(), tail_.end());
  return out;
}

std::vector<BlockHash> RunChain::BlocksIn(const TokenRun* parent, std::span<const TokenId> tokens,
                                          const KeySpace& space,
                                          const std::vector<BlockHash>& before) const {
  const size_t begin = parent == nullptr ? 0 : parent->end();
  const size_t per_block = space.tokens_per_block;
  std::vector<BlockHash> out((begin + tokens.size()) / per_block - begin / per_block);
  ByteSpan previous = before.empty() ? ByteSpan(space.id.bytes) : ByteSpan(before.back().bytes);
  size_t taken = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (const size_t partial = (begin + taken) % per_block; partial != 0) {
      std::vector<TokenId> block = LastTokens(parent, partial);
      taken = per_block - partial;
      block.insert(block.end(), tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(taken));
      out[i] = NextBlockHash(space.seed, previous, block);
    } else {
      out[i] = NextBlockHash(space.seed, previous, tokens.subspan(taken, per_block));
      taken += per_block;
    }
    previous = out[i].bytes;
  }
  return out;
}

const std::vector<BlockHash>& RunChain::HashesOf(const TokenRun& run, const KeySpace& space,
                                                 const std::vector<BlockHash>& before) const {
  for (const TokenRun::Hashes& h : run.hashes_) {
    if (h.space == space) return h.blocks;
  }
  std::vector<BlockHash> blocks = BlocksIn(run.parent().get(), run.tokens(), space, before);
  size_t change = sizeof(TokenRun::Hashes) + blocks.size() * sizeof(BlockHash);
  if (run.hashes_.size() >= kSpacesKept) {
    change -= sizeof(TokenRun::Hashes) + run.hashes_.front().blocks.size() * sizeof(BlockHash);
    run.hashes_.erase(run.hashes_.begin());
  }
  run.charged_ += change;  // wraps, and so does the sum, when less is kept than before
  *run.ledger_ += change;
  return run.hashes_.emplace_back(TokenRun::Hashes{space, std::move(blocks)}).blocks;
}

std::vector<BlockHash> RunChain::Hash(const KeySpace& space) const {
  std::vector<BlockHash> chain;
  if (space.tokens_per_block == 0) return chain;
  const TokenRun* last = runs_.empty() ? nullptr : runs_.back();
  chain.reserve(((last == nullptr ? 0 : last->end()) + tail_.size()) / space.tokens_per_block);
  for (const TokenRun* run : runs_) {
    const std::vector<BlockHash>& blocks = HashesOf(*run, space, chain);
    chain.insert(chain.end(), blocks.begin(), blocks.end());
  }
  const std::vector<BlockHash> rest = BlocksIn(last, tail_, space, chain);
  chain.insert(chain.end(), rest.begin(), rest.end());
  return chain;
}

}  // namespace ember::router
