// PrefixIndex: which replica holds which block, and which blocks have ever been held and so are
// presumed to be in the store. Fed by the replicas' own reports and by routing decisions; every
// answer is a hint that may cost time, never a wrong answer.
//
// A prefix counts only unbroken from the start. Memory is bounded by a number of blocks; beyond it
// the ends of the chains that were used longest ago go first, whoever holds them.
// Concurrency: one thread (the router's loop). Replicas are small numbers given by the caller.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "proto/model/block_hash.h"

namespace ember::router {

using ReplicaNumber = uint32_t;
inline constexpr ReplicaNumber kMaxReplicas = 64;
using BlockChain = std::vector<BlockHash>;

// What one replica says that one of its slots holds, from the start of the chain.
struct HeldChain {
  uint32_t slot = 0;
  BlockChain blocks;
};

struct PrefixLookup {
  std::array<uint32_t, kMaxReplicas> replica_blocks{};
  uint32_t store_blocks = 0;
};

class PrefixIndex {
 public:
  // Names one presumption; numbers are never used twice.
  using Presumption = uint64_t;

  explicit PrefixIndex(size_t max_blocks) : max_blocks_(max_blocks) {}
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // The replica holds exactly this. Replaces its earlier reports and every presumption about it.
  void Reset(ReplicaNumber replica, const NamespaceId& ns, std::vector<HeldChain> held);
  // The slot holds this instead of what it held (empty: nothing). Before the first Reset, ignored.
  void SetHeld(ReplicaNumber replica, HeldChain held);
  // Forgets what the replica holds; the store's presumed blocks stay.
  void RemoveReplica(ReplicaNumber replica);

  // The replica was just sent a prompt with this chain, so it will hold it.
  Presumption Presume(ReplicaNumber replica, const NamespaceId& ns, BlockChain chain);
  // The request is over: the replica's next report knows better. An unknown number is ignored.
  void Settle(ReplicaNumber replica, Presumption presumption);

  // The store turned out not to have the chain from block `from` on. A later report of a holder
  // (who pushes what it holds) makes it presumed again.
  void ForgetStored(const NamespaceId& ns, std::span<const BlockHash> chain, size_t from);

  // Longest unbroken prefix per holder. Marks the matched blocks as used.
  PrefixLookup Lookup(const NamespaceId& ns, std::span<const BlockHash> chain);

  size_t blocks() const { return entries_.size(); }
  size_t blocks_held(ReplicaNumber replica) const { return replicas_.at(replica).blocks_held; }
  uint64_t evictions() const { return evictions_; }

 private:
  struct Entry {
    uint64_t holders = 0;   // bit r: replica r
    bool in_store = false;  // was reported as held once
    std::list<BlockKey>::iterator use;
  };
  struct Presumed {
    Presumption id;
    NamespaceId ns;
    BlockChain chain;
    bool settled = false;
  };
  struct ReplicaBlocks {
    std::optional<NamespaceId> ns;  // of the last Reset
    std::map<uint32_t, BlockChain> slots;
    std::deque<Presumed> presumed;  // oldest first, bounded
    size_t blocks_held = 0;         // entries with the replica's bit
  };

  void Add(ReplicaNumber replica, const NamespaceId& ns, const BlockChain& chain, bool reported);
  // Clears the replica's bit of the chain's blocks, except where another of its chains has them.
  void Drop(ReplicaNumber replica, const NamespaceId& ns, const BlockChain& chain);
  bool StillHeld(const ReplicaBlocks& blocks, const NamespaceId& ns, const BlockHash& hash,
                 size_t position) const;
  void DropPresumed(ReplicaNumber replica, bool settled_only);
  void Erase(std::unordered_map<BlockKey, Entry>::iterator it);
  void Evict();

  const size_t max_blocks_;
  std::unordered_map<BlockKey, Entry> entries_;
  std::list<BlockKey> use_;  // most recently used first
  std::array<ReplicaBlocks, kMaxReplicas> replicas_;
  Presumption next_presumption_ = 1;
  uint64_t evictions_ = 0;
};

}  // namespace ember::router
