#include "router/index/prefix_index.h"

#include <algorithm>
#include <utility>

namespace ember::router {
namespace {

// A replica with more unfinished requests than this is presumed to hold only the newest ones.
constexpr size_t kMaxPresumedPerReplica = 256;
// What one replica may claim to hold, so that a broken report cannot take the memory.
constexpr size_t kMaxSlotsPerReplica = 1024;

uint64_t BitOf(ReplicaNumber replica) { return uint64_t{1} << replica; }

}  // namespace

void PrefixIndex::Reset(ReplicaNumber replica, const NamespaceId& ns, std::vector<HeldChain> held) {
  RemoveReplica(replica);
  replicas_.at(replica).ns = ns;
  for (HeldChain& chain : held) SetHeld(replica, std::move(chain));
}

void PrefixIndex::SetHeld(ReplicaNumber replica, HeldChain held) {
  ReplicaBlocks& r = replicas_.at(replica);
  if (!r.ns) return;
  if (held.blocks.size() > max_blocks_) held.blocks.resize(max_blocks_);
  const auto slot = r.slots.find(held.slot);
  if (slot == r.slots.end() && r.slots.size() >= kMaxSlotsPerReplica) return;
  BlockChain old = slot == r.slots.end() ? BlockChain{} : std::move(slot->second);
  if (held.blocks.empty()) {
    if (slot != r.slots.end()) r.slots.erase(slot);
  } else {
    Add(replica, *r.ns, held.blocks, true);
    r.slots[held.slot] = std::move(held.blocks);
  }
  Drop(replica, *r.ns, old);
  DropPresumed(replica, true);
}

void PrefixIndex::RemoveReplica(ReplicaNumber replica) {
  ReplicaBlocks& r = replicas_.at(replica);
  const auto slots = std::exchange(r.slots, {});
  DropPresumed(replica, false);
  for (const auto& [slot, chain] : slots) Drop(replica, *r.ns, chain);
  r.ns.reset();
}

PrefixIndex::Presumption PrefixIndex::Presume(ReplicaNumber replica, const NamespaceId& ns,
                                              BlockChain chain) {
  ReplicaBlocks& r = replicas_.at(replica);
  if (chain.size() > max_blocks_) chain.resize(max_blocks_);
  Add(replica, ns, chain, false);
  r.presumed.push_back({next_presumption_, ns, std::move(chain)});
  if (r.presumed.size() > kMaxPresumedPerReplica) {
    const Presumed oldest = std::move(r.presumed.front());
    r.presumed.pop_front();
    Drop(replica, oldest.ns, oldest.chain);
  }
  return next_presumption_++;
}

void PrefixIndex::Settle(ReplicaNumber replica, Presumption presumption) {
  for (Presumed& p : replicas_.at(replica).presumed) {
    if (p.id == presumption) p.settled = true;
  }
}

void PrefixIndex::ForgetStored(const NamespaceId& ns, std::span<const BlockHash> chain,
                               size_t from) {
  for (size_t i = from; i < chain.size(); ++i) {
    const auto it = entries_.find({ns, chain[i]});
    if (it == entries_.end()) continue;
    it->second.in_store = false;
    if (it->second.holders == 0) Erase(it);
  }
}

PrefixLookup PrefixIndex::Lookup(const NamespaceId& ns, std::span<const BlockHash> chain) {
  PrefixLookup found;
  uint64_t alive = ~uint64_t{0};
  bool in_store = true;
  size_t matched = 0;
  for (; matched < chain.size(); ++matched) {
    const auto it = entries_.find({ns, chain[matched]});
    const uint64_t holders = it == entries_.end() ? 0 : it->second.holders & alive;
    in_store = in_store && it != entries_.end() && it->second.in_store;
    // A holder that drops out here has exactly `matched` blocks.
    for (uint64_t gone = matched == 0 ? 0 : alive & ~holders; gone != 0; gone &= gone - 1) {
      found.replica_blocks[static_cast<size_t>(__builtin_ctzll(gone))] =
          static_cast<uint32_t>(matched);
    }
    alive = holders;
    if (in_store) found.store_blocks = static_cast<uint32_t>(matched + 1);
    if (alive == 0 && !in_store) break;
  }
  if (matched == 0) return found;
  for (; alive != 0; alive &= alive - 1) {
    found.replica_blocks[static_cast<size_t>(__builtin_ctzll(alive))] =
        static_cast<uint32_t>(matched);
  }
  // From the end to the start, so that a chain's start is always younger than its end.
  for (size_t i = matched; i-- > 0;) {
    use_.splice(use_.begin(), use_, entries_.find({ns, chain[i]})->second.use);
  }
  return found;
}

void PrefixIndex::Add(ReplicaNumber replica, const NamespaceId& ns, const BlockChain& chain,
                      bool reported) {
  for (size_t i = chain.size(); i-- > 0;) {
    const BlockKey key{ns, chain[i]};
    auto [it, inserted] = entries_.try_emplace(key);
    if (inserted) {
      use_.push_front(key);
      it->second.use = use_.begin();
    } else {
      use_.splice(use_.begin(), use_, it->second.use);
    }
    if ((it->second.holders & BitOf(replica)) == 0) ++replicas_.at(replica).blocks_held;
    it->second.holders |= BitOf(replica);
    it->second.in_store |= reported;
  }
  Evict();
}

bool PrefixIndex::StillHeld(const ReplicaBlocks& blocks, const NamespaceId& ns,
                            const BlockHash& hash, size_t position) const {
  const auto has = [&](const BlockChain& c) { return position < c.size() && c[position] == hash; };
  if (blocks.ns == ns) {
    for (const auto& [slot, chain] : blocks.slots) {
      if (has(chain)) return true;
    }
  }
  return std::any_of(blocks.presumed.begin(), blocks.presumed.end(),
                     [&](const Presumed& p) { return p.ns == ns && has(p.chain); });
}

void PrefixIndex::Drop(ReplicaNumber replica, const NamespaceId& ns, const BlockChain& chain) {
  ReplicaBlocks& r = replicas_.at(replica);
  for (size_t i = chain.size(); i-- > 0;) {
    if (StillHeld(r, ns, chain[i], i)) continue;
    const auto it = entries_.find({ns, chain[i]});
    if (it == entries_.end() || (it->second.holders & BitOf(replica)) == 0) continue;
    it->second.holders &= ~BitOf(replica);
    --r.blocks_held;
    if (it->second.holders == 0 && !it->second.in_store) Erase(it);
  }
}

void PrefixIndex::DropPresumed(ReplicaNumber replica, bool settled_only) {
  ReplicaBlocks& r = replicas_.at(replica);
  std::vector<Presumed> gone;
  std::erase_if(r.presumed, [&](Presumed& p) {
    if (settled_only && !p.settled) return false;
    gone.push_back(std::move(p));
    return true;
  });
  for (const Presumed& p : gone) Drop(replica, p.ns, p.chain);
}

void PrefixIndex::Erase(std::unordered_map<BlockKey, Entry>::iterator it) {
  use_.erase(it->second.use);
  entries_.erase(it);
}

void PrefixIndex::Evict() {
  while (entries_.size() > max_blocks_) {
    const auto it = entries_.find(use_.back());
    for (uint64_t holders = it->second.holders; holders != 0; holders &= holders - 1) {
      --replicas_[static_cast<size_t>(__builtin_ctzll(holders))].blocks_held;
    }
    Erase(it);
    ++evictions_;
  }
}

}  // namespace ember::router
