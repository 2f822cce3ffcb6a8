// PrefixIndex: who holds which block, and in which tier. Fed by engines' cache events, by agents'
// reports, by the stores' feeds and by routing decisions; every answer is a hint that may cost
// time, never a wrong answer.
//
// A prefix counts only unbroken from the start. Memory is bounded by bytes, at every moment; beyond
// that the ends of the chains that were used longest ago go first, whoever holds them.
// Concurrency: Lookup and LookupGroups from any thread at any time; everything else from one
// thread, the writer (the router's loop).
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "router/index/engine_key.h"
#include "router/index/held_chain.h"
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
  // Names one presumption; numbers are never used twice.
  using Presumption = uint64_t;

  explicit PrefixIndex(const PrefixIndexOptions& options);
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // ---- Holders. Whatever is said of a holder that is not there (kNoHolder) is ignored.
  // A holder without blocks; kNoHolder when there are kMaxHolders.
  HolderId AddHolder(HolderKind kind);
  // It and all its blocks are gone for every lookup that begins after this call; the memory comes
  // back piece by piece with later writes. The number may be given out again.
  void RemoveHolder(HolderId holder);
  // The same, but the holder stays and can be told of blocks at once.
  void ClearHolder(HolderId holder);

  // ---- Engines' cache events. Idempotent; a holder's events count in the order of the calls.
  // The holder has `hashes[i]` in `tier` and calls it `keys[i]`; consecutive blocks of one chain
  // that goes on after the block `parent` (nothing: from the chain's start). A key names one block
  // of a holder: told of another hash, it is no longer that of the first.
  void Store(HolderId holder, HolderTier tier, std::optional<EngineKey> parent,
             std::span<const EngineKey> keys, std::span<const BlockHash> hashes);
  // The holder has them in that tier no longer. Unknown keys are ignored.
  void Remove(HolderId holder, HolderTier tier, std::span<const EngineKey> keys);
  // What the holder calls by that key, while it holds it in any tier.
  std::optional<BlockHash> HashOf(HolderId holder, EngineKey key) const;

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

  // ---- Questions. What a lookup found counts as used.
  // Longest unbroken prefix of each replica, and of all stores together. `blocks_per_segment`: the
  // stores' segments end with every so manieth block (BlocksPerSegment).
  PrefixLookup Lookup(std::span<const BlockHash> chain, uint32_t blocks_per_segment = 1) const;
  // The longest prefix that each replica can use, which needs its part of every group's chain:
  // windows are looked up behind holes too.
  std::vector<GroupMatch> LookupGroups(std::span<const GroupChain> groups) const;

  size_t blocks() const { return entries_.size(); }
  size_t blocks_held(HolderId holder) const;
  size_t bytes() const;
  uint64_t evictions() const { return evictions_; }

 private:
  static constexpr HolderId kPresumedStore = kMaxHolders;
  using Tiers = uint8_t;  // bit per HolderTier; bit 3: presumed
  struct Entry {
    std::map<HolderId, Tiers> holders;
    std::list<BlockHash>::iterator use;
  };
  struct Presumed {
    Presumption id;
    BlockChain chain;
    bool settled = false;
  };
  struct Holder {
    bool used = false;
    HolderKind kind = HolderKind::kReplica;
    bool reported = false;
    std::unordered_map<uint64_t, BlockHash> keys;
    std::map<uint32_t, BlockChain> slots;
    std::deque<Presumed> presumed;  // oldest first, bounded
    size_t blocks = 0;
  };

  void Add(HolderId holder, const BlockHash& hash, Tiers tiers);
  void Drop(HolderId holder, const BlockHash& hash, Tiers tiers);
  void DropChain(HolderId holder, const BlockChain& chain, Tiers tiers);
  void DropPresumed(HolderId holder, bool settled_only);
  Tiers TiersOf(HolderId holder, const BlockHash& hash) const;
  void Evict();
  bool Known(HolderId holder) const { return holder < kMaxHolders && holders_[holder].used; }

  const PrefixIndexOptions options_;
  const size_t max_blocks_;
  std::unordered_map<BlockHash, Entry> entries_;
  mutable std::list<BlockHash> use_;  // most recently used first
  std::vector<Holder> holders_;
  Presumption next_presumption_ = 1;
  uint64_t evictions_ = 0;
};

}  // namespace ember::router
