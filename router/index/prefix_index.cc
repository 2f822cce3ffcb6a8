#include "router/index/prefix_index.h"

#include <algorithm>
#include <utility>

namespace ember::router {
namespace {

constexpr size_t kMaxPresumedPerHolder = 256;
constexpr size_t kMaxSlotsPerHolder = 1024;
constexpr uint8_t kPresumedBit = 8;
constexpr uint8_t kDeviceBits = 1 | kPresumedBit;
constexpr size_t kBytesPerBlock = 256;

uint8_t TierBit(HolderTier tier) { return static_cast<uint8_t>(1u << static_cast<uint8_t>(tier)); }

}  // namespace

PrefixIndex::PrefixIndex(const PrefixIndexOptions& options)
    : options_(options),
      max_blocks_(options.max_bytes / kBytesPerBlock),
      holders_(kMaxHolders + 1) {
  holders_[kPresumedStore] = {.used = true, .kind = HolderKind::kStoreNode};
}

HolderId PrefixIndex::AddHolder(HolderKind kind) {
  for (size_t h = 0; h < kMaxHolders; ++h) {
    if (holders_[h].used) continue;
    holders_[h] = {.used = true, .kind = kind};
    return static_cast<HolderId>(h);
  }
  return kNoHolder;
}

void PrefixIndex::RemoveHolder(HolderId holder) {
  if (!Known(holder)) return;
  ClearHolder(holder);
  holders_.at(holder).used = false;
}

void PrefixIndex::ClearHolder(HolderId holder) {
  if (!Known(holder)) return;
  Holder& h = holders_.at(holder);
  for (auto it = entries_.begin(); it != entries_.end();) {
    it->second.holders.erase(holder);
    if (it->second.holders.empty()) {
      use_.erase(it->second.use);
      it = entries_.erase(it);
    } else {
      ++it;
    }
  }
  h = {.used = true, .kind = h.kind};
}

void PrefixIndex::Store(HolderId holder, HolderTier tier, std::optional<EngineKey>,
                        std::span<const EngineKey> keys, std::span<const BlockHash> hashes) {
  if (!Known(holder)) return;
  DropPresumed(holder, true);
  Holder& h = holders_.at(holder);
  for (size_t i = std::min(keys.size(), hashes.size()); i-- > 0;) {
    const auto key = static_cast<uint64_t>(keys[i]);
    const auto known = h.keys.find(key);
    if (known != h.keys.end() && known->second != hashes[i]) Drop(holder, known->second, 7);
    h.keys[key] = hashes[i];
    Add(holder, hashes[i], TierBit(tier));
  }
  Evict();
}

void PrefixIndex::Remove(HolderId holder, HolderTier tier, std::span<const EngineKey> keys) {
  if (!Known(holder)) return;
  DropPresumed(holder, true);
  Holder& h = holders_.at(holder);
  for (const EngineKey key : keys) {
    const auto known = h.keys.find(static_cast<uint64_t>(key));
    if (known == h.keys.end()) continue;
    Drop(holder, known->second, TierBit(tier));
    if ((TiersOf(holder, known->second) & 7) == 0) h.keys.erase(known);
  }
}

std::optional<BlockHash> PrefixIndex::HashOf(HolderId holder, EngineKey key) const {
  if (!Known(holder)) return std::nullopt;
  const Holder& h = holders_.at(holder);
  const auto known = h.keys.find(static_cast<uint64_t>(key));
  if (known == h.keys.end() || (TiersOf(holder, known->second) & 7) == 0) return std::nullopt;
  return known->second;
}

void PrefixIndex::StoreBlock(HolderId holder, HolderTier tier, const BlockHash& hash) {
  if (!Known(holder)) return;
  Add(holder, hash, TierBit(tier));
  Evict();
}

void PrefixIndex::RemoveBlock(HolderId holder, HolderTier tier, const BlockHash& hash) {
  if (!Known(holder)) return;
  Drop(holder, hash, TierBit(tier));
}

void PrefixIndex::ForgetStored(std::span<const BlockHash> chain, size_t from) {
  for (size_t i = from; i < chain.size(); ++i) Drop(kPresumedStore, chain[i], 0xff);
}

void PrefixIndex::Reset(HolderId holder, std::vector<HeldChain> held) {
  if (!Known(holder)) return;
  ClearHolder(holder);
  holders_.at(holder).reported = true;
  for (HeldChain& chain : held) SetHeld(holder, std::move(chain));
}

void PrefixIndex::SetHeld(HolderId holder, HeldChain held) {
  if (!Known(holder)) return;
  Holder& h = holders_.at(holder);
  if (!h.reported) return;
  const auto slot = h.slots.find(held.slot);
  if (slot == h.slots.end() && h.slots.size() >= kMaxSlotsPerHolder) return;
  if (held.blocks.size() > max_blocks_) held.blocks.resize(max_blocks_);
  const BlockChain old = slot == h.slots.end() ? BlockChain{} : std::move(slot->second);
  for (size_t i = held.blocks.size(); i-- > 0;) {
    Add(holder, held.blocks[i], 1);
    if (options_.presume_stored) Add(kPresumedStore, held.blocks[i], 1);
  }
  h.slots[held.slot] = std::move(held.blocks);
  DropChain(holder, old, 1);
  DropPresumed(holder, true);
  Evict();
}

PrefixIndex::Presumption PrefixIndex::Presume(HolderId holder, BlockChain chain) {
  if (!Known(holder)) return 0;
  Holder& h = holders_.at(holder);
  if (chain.size() > max_blocks_) chain.resize(max_blocks_);
  for (size_t i = chain.size(); i-- > 0;) Add(holder, chain[i], kPresumedBit);
  h.presumed.push_back({next_presumption_, std::move(chain)});
  if (h.presumed.size() > kMaxPresumedPerHolder) {
    const Presumed oldest = std::move(h.presumed.front());
    h.presumed.pop_front();
    DropChain(holder, oldest.chain, kPresumedBit);
  }
  Evict();
  return next_presumption_++;
}

void PrefixIndex::Settle(HolderId holder, Presumption presumption) {
  if (!Known(holder)) return;
  for (Presumed& p : holders_.at(holder).presumed) {
    if (p.id == presumption) p.settled = true;
  }
}

PrefixLookup PrefixIndex::Lookup(std::span<const BlockHash> chain,
                                 uint32_t blocks_per_segment) const {
  PrefixLookup found;
  std::map<HolderId, HolderMatch> matches;
  bool in_store = true;
  for (size_t i = 0; i < chain.size(); ++i) {
    const auto it = entries_.find(chain[i]);
    bool stored = false;
    if (it != entries_.end()) {
      use_.splice(use_.begin(), use_, it->second.use);
      for (const auto& [holder, tiers] : it->second.holders) {
        stored = stored || holders_[holder].kind == HolderKind::kStoreNode;
        if (holders_[holder].kind == HolderKind::kStoreNode) continue;
        if (i == 0) matches[holder].holder = holder;
        const auto m = matches.find(holder);
        if (m == matches.end() || m->second.any_tier_blocks != i) continue;
        m->second.any_tier_blocks = static_cast<uint32_t>(i + 1);
        if (m->second.device_blocks == i && (tiers & kDeviceBits) != 0) ++m->second.device_blocks;
      }
    }
    if ((i + 1) % blocks_per_segment != 0) continue;
    in_store = in_store && stored;
    if (in_store) found.store_blocks = static_cast<uint32_t>(i + 1);
  }
  for (const auto& [holder, match] : matches) found.holders.push_back(match);
  return found;
}

std::vector<GroupMatch> PrefixIndex::LookupGroups(std::span<const GroupChain> groups) const {
  std::vector<GroupMatch> found;
  if (groups.empty()) return found;
  for (size_t h = 0; h < kMaxHolders; ++h) {
    const auto id = static_cast<HolderId>(h);
    if (!holders_[h].used || holders_[h].kind != HolderKind::kReplica) continue;
    const auto longest = [&](Tiers wanted) -> uint64_t {
      uint64_t tokens = UINT64_MAX;
      const auto held = [&](const GroupChain& g, uint64_t n) {
        const uint64_t from = g.window_tokens == 0 || n < g.window_tokens ? 0 : n - g.window_tokens;
        for (uint64_t i = from / g.tokens_per_block; i < n / g.tokens_per_block; ++i) {
          if ((TiersOf(id, g.chain[i]) & wanted) == 0) return false;
        }
        return true;
      };
      for (const GroupChain& g : groups) {
        tokens = std::min<uint64_t>(tokens, uint64_t{g.chain.size()} * g.tokens_per_block);
      }
      for (; tokens > 0; --tokens) {
        if (std::all_of(groups.begin(), groups.end(), [&](const GroupChain& g) {
              return tokens % g.tokens_per_block == 0 && held(g, tokens);
            })) {
          break;
        }
      }
      return tokens;
    };
    const GroupMatch match{id, longest(kDeviceBits), longest(0xff)};
    if (match.any_tier_tokens > 0) found.push_back(match);
  }
  return found;
}

size_t PrefixIndex::blocks_held(HolderId holder) const {
  return !Known(holder) ? 0 : holders_.at(holder).blocks;
}

size_t PrefixIndex::bytes() const { return entries_.size() * kBytesPerBlock; }

PrefixIndex::Tiers PrefixIndex::TiersOf(HolderId holder, const BlockHash& hash) const {
  const auto it = entries_.find(hash);
  if (it == entries_.end()) return 0;
  const auto h = it->second.holders.find(holder);
  return h == it->second.holders.end() ? 0 : h->second;
}

void PrefixIndex::Add(HolderId holder, const BlockHash& hash, Tiers tiers) {
  auto [it, inserted] = entries_.try_emplace(hash);
  if (inserted) {
    use_.push_front(hash);
    it->second.use = use_.begin();
  } else {
    use_.splice(use_.begin(), use_, it->second.use);
  }
  Tiers& own = it->second.holders[holder];
  if (own == 0) ++holders_[holder].blocks;
  own |= tiers;
}

void PrefixIndex::Drop(HolderId holder, const BlockHash& hash, Tiers tiers) {
  const auto it = entries_.find(hash);
  if (it == entries_.end()) return;
  const auto h = it->second.holders.find(holder);
  if (h == it->second.holders.end()) return;
  h->second &= static_cast<Tiers>(~tiers);
  if (h->second != 0) return;
  --holders_[holder].blocks;
  it->second.holders.erase(h);
  if (!it->second.holders.empty()) return;
  use_.erase(it->second.use);
  entries_.erase(it);
}

void PrefixIndex::DropChain(HolderId holder, const BlockChain& chain, Tiers tiers) {
  const Holder& h = holders_.at(holder);
  for (size_t i = chain.size(); i-- > 0;) {
    const auto has = [&](const BlockChain& c) { return i < c.size() && c[i] == chain[i]; };
    const bool still = tiers == kPresumedBit
                           ? std::any_of(h.presumed.begin(), h.presumed.end(),
                                         [&](const Presumed& p) { return has(p.chain); })
                           : std::any_of(h.slots.begin(), h.slots.end(),
                                         [&](const auto& slot) { return has(slot.second); });
    if (!still) Drop(holder, chain[i], tiers);
  }
}

void PrefixIndex::DropPresumed(HolderId holder, bool settled_only) {
  std::vector<Presumed> gone;
  std::erase_if(holders_.at(holder).presumed, [&](Presumed& p) {
    if (settled_only && !p.settled) return false;
    gone.push_back(std::move(p));
    return true;
  });
  for (const Presumed& p : gone) DropChain(holder, p.chain, kPresumedBit);
}

void PrefixIndex::Evict() {
  while (entries_.size() > max_blocks_) {
    const auto it = entries_.find(use_.back());
    for (const auto& [holder, tiers] : it->second.holders) --holders_[holder].blocks;
    use_.pop_back();
    entries_.erase(it);
    ++evictions_;
  }
}

}  // namespace ember::router
