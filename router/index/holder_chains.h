// HolderChains: the chains that an agent reported for a holder's slots, and those that the router
// presumes the holder to have. Remembered because chains share blocks: when one goes, the blocks
// that another still has stay. The writer's thread; memory is the caller's budget's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "router/index/held_chain.h"
#include "router/index/memory_budget.h"

namespace ember::router {

class HolderChains {
 public:
  // Names one presumption; numbers are never used twice.
  using Presumption = uint64_t;

  // The chain that the slot held. False: too many slots, or no memory; then it holds nothing.
  bool SetSlot(uint32_t slot, const BlockChain& chain, MemoryBudget& budget, BlockChain* before);
  // How many of the chain's first blocks some slot has.
  size_t SharedWithSlots(const BlockChain& chain) const;

  // False: no memory.
  bool AddPresumed(Presumption id, const BlockChain& chain, MemoryBudget& budget);
  void Settle(Presumption id);
  // That presumption's chain, which is no longer presumed; nothing when it is none.
  std::optional<BlockChain> Take(Presumption id, MemoryBudget& budget);
  // The oldest presumption's chain, which is no longer presumed; nothing when there is none.
  std::optional<BlockChain> TakeOldest(MemoryBudget& budget);
  // The same of one that was settled.
  std::optional<BlockChain> TakeSettled(MemoryBudget& budget);
  size_t presumed() const { return presumed_.size(); }
  size_t SharedWithPresumed(const BlockChain& chain) const;

  void Clear(MemoryBudget& budget);

 private:
  struct Presumed {
    Presumption id = 0;
    BlockChain chain;
    bool settled = false;
  };
  BlockChain TakePresumed(size_t at, MemoryBudget& budget);

  std::map<uint32_t, BlockChain> slots_;
  std::vector<Presumed> presumed_;  // oldest first
  size_t settled_ = 0;
};

}  // namespace ember::router
