#include "router/index/holder_chains.h"

#include <algorithm>
#include <utility>

namespace ember::router {
namespace {

// What one replica may claim to hold, so that a broken report cannot take the memory.
constexpr size_t kMaxSlots = 1024;

size_t BytesOf(const BlockChain& chain) {
  constexpr size_t kBookkeeping = 96;  // a map's node, or a presumption
  return kBookkeeping + chain.size() * sizeof(BlockHash);
}

// A block's hash contains all before it, so chains are equal up to one place and nowhere behind it.
size_t CommonBlocks(const BlockChain& a, const BlockChain& b) {
  size_t equal = 0;
  size_t different = std::min(a.size(), b.size());
  if (different == 0 || a[0] != b[0]) return 0;
  while (equal < different) {
    const size_t middle = equal + (different - equal) / 2;
    if (a[middle] == b[middle]) {
      equal = middle + 1;
    } else {
      different = middle;
    }
  }
  return equal;
}

}  // namespace

bool HolderChains::SetSlot(uint32_t slot, const BlockChain& chain, MemoryBudget& budget,
                           BlockChain* before) {
  const auto it = slots_.find(slot);
  if (it != slots_.end()) {
    *before = std::move(it->second);
    budget.GiveBackRest(BytesOf(*before));
    slots_.erase(it);
  }
  if (chain.empty()) return true;
  if (slots_.size() >= kMaxSlots || !budget.TakeForRest(BytesOf(chain))) return false;
  slots_[slot] = chain;
  return true;
}

size_t HolderChains::SharedWithSlots(const BlockChain& chain) const {
  size_t shared = 0;
  for (const auto& [slot, other] : slots_) shared = std::max(shared, CommonBlocks(chain, other));
  return shared;
}

bool HolderChains::AddPresumed(Presumption id, const BlockChain& chain, MemoryBudget& budget) {
  if (!budget.TakeForRest(BytesOf(chain))) return false;
  presumed_.push_back({.id = id, .chain = chain});
  return true;
}

void HolderChains::Settle(Presumption id) {
  for (Presumed& p : presumed_) {
    if (p.id != id || p.settled) continue;
    p.settled = true;
    ++settled_;
  }
}

std::optional<BlockChain> HolderChains::Take(Presumption id, MemoryBudget& budget) {
  const auto it = std::ranges::find(presumed_, id, &Presumed::id);
  if (it == presumed_.end()) return std::nullopt;
  return TakePresumed(static_cast<size_t>(it - presumed_.begin()), budget);
}

std::optional<BlockChain> HolderChains::TakeOldest(MemoryBudget& budget) {
  if (presumed_.empty()) return std::nullopt;
  return TakePresumed(0, budget);
}

std::optional<BlockChain> HolderChains::TakeSettled(MemoryBudget& budget) {
  if (settled_ == 0) return std::nullopt;
  const auto it = std::ranges::find_if(presumed_, &Presumed::settled);
  return TakePresumed(static_cast<size_t>(it - presumed_.begin()), budget);
}

BlockChain HolderChains::TakePresumed(size_t at, MemoryBudget& budget) {
  Presumed taken = std::move(presumed_[at]);
  presumed_.erase(presumed_.begin() + static_cast<ptrdiff_t>(at));
  if (taken.settled) --settled_;
  budget.GiveBackRest(BytesOf(taken.chain));
  return std::move(taken.chain);
}

size_t HolderChains::SharedWithPresumed(const BlockChain& chain) const {
  size_t shared = 0;
  for (const Presumed& p : presumed_) shared = std::max(shared, CommonBlocks(chain, p.chain));
  return shared;
}

void HolderChains::Clear(MemoryBudget& budget) {
  for (const auto& [slot, chain] : slots_) budget.GiveBackRest(BytesOf(chain));
  for (const Presumed& p : presumed_) budget.GiveBackRest(BytesOf(p.chain));
  slots_.clear();
  presumed_.clear();
  settled_ = 0;
}

}  // namespace ember::router
