// PrefixIndex: who holds which block, and in which tier. Fed by engines' cache events, by agents'
// reports, by the stores' feeds and by routing decisions; every answer is a hint that may cost
// time, never a wrong answer.
//
// A prefix counts only unbroken from the start. Memory is bounded by bytes, at every moment; beyond
// that the ends of chains that were not used for long go first, whoever holds them.
// Concurrency: Lookup and LookupGroups from any thread at any time, without waiting for anybody;
// everything else from one thread, the writer (the router's loop).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "router/index/engine_key.h"
#include "router/index/held_blocks.h"
#include "router/index/holder_chains.h"
#include "router/index/prefix_lookup.h"

namespace ember::router {

struct PrefixIndexOptions {
  size_t max_bytes = 64u << 20;  // everything that the index allocates; at least 1 MiB
  uint64_t seed = 0;             // secret: nobody outside can make its tables' entries collide
  // A block that an agent reported is presumed to be in the store from then on. For routers that
  // are not told what the stores hold.
  bool presume_stored = true;
};

class PrefixIndex {
 public:
  using Presumption = HolderChains::Presumption;

  explicit PrefixIndex(const PrefixIndexOptions& options);
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // ---- Holders. Whatever is said of a holder that is not there (kNoHolder) is ignored.
  // A holder without blocks; kNoHolder when there are kMaxHolders.
  HolderId AddHolder(HolderKind kind);
  // It and all its blocks are gone for every lookup that begins after this call; the memory comes
  // back piece by piece with later writes. The number will be given out again, as late as possible.
  void RemoveHolder(HolderId holder);
  // The same, but the holder stays and can be told of blocks at once.
  void ClearHolder(HolderId holder);

  // ---- Engines' cache events. Idempotent; a holder's events count in the order of the calls.
  // The holder has `hashes[i]` in `tier` and calls it `keys[i]`; consecutive blocks of one chain
  // that goes on after the block `parent` (nothing: from the chain's start). A key names one block
  // of a holder: told of another hash, it is no longer that of the first. Says how many of them it
  // had there by that key already.
  size_t Store(HolderId holder, HolderTier tier, std::optional<EngineKey> parent,
               std::span<const EngineKey> keys, std::span<const BlockHash> hashes);
  // The holder has them in that tier no longer. Unknown keys are ignored.
  void Remove(HolderId holder, HolderTier tier, std::span<const EngineKey> keys);
  // What the holder calls by that key, while it holds it in any tier.
  std::optional<BlockHash> HashOf(HolderId holder, EngineKey key) const;
  // Blocks before that one in its chain that the holder, which has it, has not in that tier: the
  // last one first, as far as the chain is known. `steps`: how many had to be looked at.
  std::vector<BlockHash> MissingBefore(HolderId holder, HolderTier tier, EngineKey key,
                                       size_t* steps) const;

  // Whether a chain is known that goes on after that block.
  bool GoesOn(const BlockHash& block) const;

  // ---- Stores' feeds. A store node holds segments, named by the hash of their last block.
  void StoreBlock(HolderId holder, HolderTier tier, const BlockHash& hash);
  void RemoveBlock(HolderId holder, HolderTier tier, const BlockHash& hash);
  // The stores turned out not to have the chain from block `from` on: it is no longer presumed. A
  // later report of a holder (who pushes what it holds) makes it presumed again.
  void ForgetStored(std::span<const BlockHash> chain, size_t from);

  // ---- Agents' reports
  // The holder has exactly this. Replaces its earlier reports and every presumption about it.
  void Reset(HolderId holder, std::vector<HeldChain> held);
  // The slot holds this instead of what it held (empty: nothing). Before the first Reset, and after
  // ClearHolder until the next, ignored.
  void SetHeld(HolderId holder, HeldChain held);

  // ---- Our own decisions
  // The holder was just sent a prompt with this chain, so it will have it on its device. Bounded:
  // the oldest presumptions about a holder are dropped first.
  Presumption Presume(HolderId holder, BlockChain chain);
  // The request is over: the holder's next event or report knows better. An unknown number is
  // ignored.
  void Settle(HolderId holder, Presumption presumption);
  // The same, and the holder computed nothing: it is not presumed any more.
  void TakeBack(HolderId holder, Presumption presumption);

  // ---- Questions. What a lookup found counts as used.
  // Longest unbroken prefix of each replica, and of all stores together. `blocks_per_segment`: the
  // stores' segments end with every so manieth block (BlocksPerSegment).
  PrefixLookup Lookup(std::span<const BlockHash> chain, uint32_t blocks_per_segment = 1) const;
  // The longest prefix that each replica can use, which needs its part of every group's chain:
  // windows are looked up behind holes too. Replicas that can use none are not named.
  std::vector<GroupMatch> LookupGroups(std::span<const GroupChain> groups) const;

  // Whether what agents report is presumed to be in the stores: no feed of theirs tells.
  bool presumes_stored() const { return presume_stored_; }
  size_t blocks() const { return blocks_.held(); }
  size_t blocks_held(HolderId holder) const { return held(holder).any; }
  HeldCount held(HolderId holder) const;
  // All that was allocated; never more than max_bytes.
  size_t bytes() const { return blocks_.bytes(); }
  // For the writer's PresumedCaches.
  MemoryBudget& budget() { return blocks_.budget(); }
  uint64_t evictions() const { return blocks_.evictions(); }
  // Blocks that were not taken in, for memory was out at that moment.
  uint64_t refusals() const { return refusals_; }

 private:
  struct Holder {
    HolderKind kind = HolderKind::kReplica;
    LifeId life = HolderLives::kNoLife;
    bool reported = false;  // by an agent
    HolderChains chains;
  };

  // Null when it is not there, or has no life yet.
  Holder* Writable(HolderId holder);
  const Holder* Find(HolderId holder) const;
  // Adds the life, and `also` if it is one, to the chain's blocks.
  void AddChain(LifeId life, TierBits tiers, const BlockChain& chain, LifeId also);
  // Takes the life off the chain's blocks from number `from` on.
  void DropChain(LifeId life, TierBits tiers, const BlockChain& chain, size_t from);
  void DropSettled(Holder& holder);
  bool StoreOne(LifeId life, TierBits tier, EngineKey key, const BlockHash& hash,
                uint32_t* previous, size_t* again);

  const bool presume_stored_;
  HeldBlocks blocks_;
  std::array<std::unique_ptr<Holder>, kMaxHolders> holders_;
  HolderId next_holder_ = 0;
  LifeId stored_life_;  // holds what is presumed to be in the store
  Presumption next_presumption_ = 1;
  uint64_t refusals_ = 0;
  std::vector<uint32_t> nodes_;  // of a chain that is dropped
};

}  // namespace ember::router
