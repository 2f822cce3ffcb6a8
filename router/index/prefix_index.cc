#include "router/index/prefix_index.h"

#include <algorithm>
#include <utility>

namespace ember::router {
namespace {

// A replica with more presumptions than this is presumed to hold only the newest ones.
constexpr size_t kMaxPresumed = 256;
// Blocks whose places in the tables are fetched at one time.
constexpr size_t kFetchedTogether = 16;

// No prompt has more blocks.
constexpr size_t kLongestChain = 1 << 17;

// Zero is no name in the tables.
uint64_t NameOf(EngineKey key) { return key == EngineKey{0} ? ~uint64_t{0} : uint64_t(key); }

}  // namespace

PrefixIndex::PrefixIndex(const PrefixIndexOptions& options)
    : presume_stored_(options.presume_stored),
      blocks_(options.max_bytes, options.seed),
      stored_life_(blocks_.BeginLife(kNoHolder, HolderKind::kStoreNode)) {}

HolderId PrefixIndex::AddHolder(HolderKind kind) {
  for (size_t tries = 0; tries < kMaxHolders; ++tries) {
    const HolderId id = next_holder_;
    next_holder_ = static_cast<HolderId>((next_holder_ + 1) % kMaxHolders);
    if (holders_[id] != nullptr) continue;
    holders_[id] = std::make_unique<Holder>();
    holders_[id]->kind = kind;
    return id;
  }
  return kNoHolder;
}

void PrefixIndex::RemoveHolder(HolderId holder) {
  ClearHolder(holder);
  if (Find(holder) != nullptr) holders_[holder] = nullptr;
}

void PrefixIndex::ClearHolder(HolderId holder) {
  if (Find(holder) == nullptr) return;
  Holder& h = *holders_[holder];
  if (h.life != HolderLives::kNoLife) blocks_.EndLife(h.life);
  h.life = HolderLives::kNoLife;
  h.reported = false;
  h.chains.Clear(blocks_.budget());
}

PrefixIndex::Holder* PrefixIndex::Writable(HolderId holder) {
  if (Find(holder) == nullptr) return nullptr;
  Holder& h = *holders_[holder];
  if (h.life == HolderLives::kNoLife) h.life = blocks_.BeginLife(holder, h.kind);
  return h.life == HolderLives::kNoLife ? nullptr : &h;
}

const PrefixIndex::Holder* PrefixIndex::Find(HolderId holder) const {
  return holder < kMaxHolders ? holders_[holder].get() : nullptr;
}

HeldCount PrefixIndex::held(HolderId holder) const {
  const Holder* h = Find(holder);
  return h == nullptr || h->life == HolderLives::kNoLife ? HeldCount()
                                                         : blocks_.lives().count(h->life);
}

size_t PrefixIndex::Store(HolderId holder, HolderTier tier, std::optional<EngineKey> parent,
                          std::span<const EngineKey> keys, std::span<const BlockHash> hashes) {
  Holder* h = Writable(holder);
  if (h == nullptr) return 0;
  DropSettled(*h);
  const size_t count = std::min(keys.size(), hashes.size());
  size_t again = 0;
  blocks_.BeginWrite(count);
  uint32_t previous = parent ? blocks_.names().Find(h->life, NameOf(*parent)) : 0;
  for (size_t i = 0; i < count; ++i) {
    if (i % kFetchedTogether == 0) {
      const size_t to = std::min(count, i + kFetchedTogether);
      for (size_t k = i; k < to; ++k) blocks_.FetchLine(hashes[k]);
      for (size_t k = i; k < to; ++k) blocks_.names().FetchLine(NameOf(keys[k]));
    }
    if (!StoreOne(h->life, BitOf(tier), keys[i], hashes[i], &previous, &again)) {
      refusals_ += count - i;
      break;
    }
  }
  return again;
}

bool PrefixIndex::StoreOne(LifeId life, TierBits tier, EngineKey key, const BlockHash& hash,
                           uint32_t* previous, size_t* again) {
  const uint64_t name = NameOf(key);
  EngineNames& names = blocks_.names();
  const uint32_t node = blocks_.FindOrMake(hash, *previous);
  if (node == 0) return false;
  const EngineNames::Named before = names.Locate(life, name);
  if (before.node == node && (blocks_.sets().TiersOf(blocks_.SetOf(node), life) & tier) != 0) {
    ++*again;
  }
  if (!blocks_.Add(node, life, tier)) return false;
  *previous = node;
  if (before.node == node) return true;
  if (before.node == 0 && names.Adopt(before, name, node)) return true;
  if (before.node != 0) blocks_.Drop(before.node, life, kReportedTiers);
  if (names.Set(life, name, node)) return true;
  blocks_.Drop(node, life, kReportedTiers);
  return false;
}

void PrefixIndex::Remove(HolderId holder, HolderTier tier, std::span<const EngineKey> keys) {
  Holder* h = Writable(holder);
  if (h == nullptr) return;
  DropSettled(*h);
  blocks_.BeginWrite(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i % kFetchedTogether == 0) {
      const auto next = keys.subspan(i, std::min(keys.size() - i, kFetchedTogether));
      for (const EngineKey key : next) blocks_.names().FetchLine(NameOf(key));
      for (const EngineKey key : next) blocks_.names().FetchItem(NameOf(key));
    }
    const uint64_t name = NameOf(keys[i]);
    const uint32_t node = blocks_.names().Find(h->life, name);
    if (node == 0) continue;
    const TierBits tiers = blocks_.sets().TiersOf(blocks_.SetOf(node), h->life);
    if ((tiers & kReportedTiers & ~BitOf(tier)) == 0) blocks_.names().Forget(h->life, name);
    blocks_.Drop(node, h->life, BitOf(tier));
  }
}

bool PrefixIndex::GoesOn(const BlockHash& block) const {
  const uint32_t node = blocks_.Find(block, 0);
  return node != 0 && blocks_.HasChild(node);
}

std::optional<BlockHash> PrefixIndex::HashOf(HolderId holder, EngineKey key) const {
  const Holder* h = Find(holder);
  if (h == nullptr || h->life == HolderLives::kNoLife) return std::nullopt;
  const uint32_t node = blocks_.names().Find(h->life, NameOf(key));
  if (node == 0) return std::nullopt;
  return blocks_.HashOf(node);
}

std::vector<BlockHash> PrefixIndex::MissingBefore(HolderId holder, HolderTier tier, EngineKey key,
                                                  size_t* steps) const {
  std::vector<BlockHash> missing;
  *steps = 0;
  const Holder* h = Find(holder);
  if (h == nullptr || h->life == HolderLives::kNoLife) return missing;
  uint32_t node = blocks_.names().Find(h->life, NameOf(key));
  uint32_t having = 0;  // a set that the holder is in: most blocks of a chain have the same
  for (; *steps < kLongestChain && node != 0; ++*steps) {
    node = blocks_.ParentOf(node);
    if (node == 0 || blocks_.SetOf(node) == having) continue;
    if ((blocks_.sets().TiersOf(blocks_.SetOf(node), h->life) & BitOf(tier)) != 0) {
      having = blocks_.SetOf(node);
    } else {
      missing.push_back(blocks_.HashOf(node));
    }
  }
  return missing;
}

void PrefixIndex::StoreBlock(HolderId holder, HolderTier tier, const BlockHash& hash) {
  Holder* h = Writable(holder);
  if (h == nullptr) return;
  blocks_.BeginWrite(1);
  const uint32_t node = blocks_.FindOrMake(hash, 0);
  if (node == 0 || !blocks_.Add(node, h->life, BitOf(tier))) ++refusals_;
}

void PrefixIndex::RemoveBlock(HolderId holder, HolderTier tier, const BlockHash& hash) {
  Holder* h = Writable(holder);
  if (h == nullptr) return;
  if (const uint32_t node = blocks_.Find(hash, 0); node != 0) {
    blocks_.Drop(node, h->life, BitOf(tier));
  }
}

void PrefixIndex::ForgetStored(std::span<const BlockHash> chain, size_t from) {
  for (size_t i = chain.size(); i-- > from;) {
    if (const uint32_t node = blocks_.Find(chain[i], 0); node != 0) {
      blocks_.Drop(node, stored_life_, kAllTiers);
    }
  }
}

void PrefixIndex::Reset(HolderId holder, std::vector<HeldChain> held) {
  ClearHolder(holder);
  Holder* h = Writable(holder);
  if (h == nullptr) return;
  h->reported = true;
  for (HeldChain& chain : held) SetHeld(holder, std::move(chain));
}

void PrefixIndex::SetHeld(HolderId holder, HeldChain held) {
  Holder* h = Writable(holder);
  if (h == nullptr || !h->reported) return;
  BlockChain before;
  // What cannot be remembered could never be taken back: it is not added then.
  if (h->chains.SetSlot(held.slot, held.blocks, blocks_.budget(), &before)) {
    AddChain(h->life, BitOf(HolderTier::kDevice), held.blocks,
             presume_stored_ ? stored_life_ : HolderLives::kNoLife);
  } else {
    refusals_ += held.blocks.size();
  }
  DropChain(h->life, BitOf(HolderTier::kDevice), before, h->chains.SharedWithSlots(before));
  DropSettled(*h);
}

PrefixIndex::Presumption PrefixIndex::Presume(HolderId holder, BlockChain chain) {
  Holder* h = Writable(holder);
  if (h == nullptr) return 0;
  while (h->chains.presumed() >= kMaxPresumed ||
         !h->chains.AddPresumed(next_presumption_, chain, blocks_.budget())) {
    const auto oldest = h->chains.TakeOldest(blocks_.budget());
    if (!oldest) return 0;
    DropChain(h->life, kPresumedTier, *oldest, h->chains.SharedWithPresumed(*oldest));
  }
  AddChain(h->life, kPresumedTier, chain, HolderLives::kNoLife);
  return next_presumption_++;
}

void PrefixIndex::Settle(HolderId holder, Presumption presumption) {
  if (Find(holder) != nullptr) holders_[holder]->chains.Settle(presumption);
}

void PrefixIndex::TakeBack(HolderId holder, Presumption presumption) {
  Holder* h = Writable(holder);
  if (h == nullptr) return;
  const auto chain = h->chains.Take(presumption, blocks_.budget());
  if (chain) DropChain(h->life, kPresumedTier, *chain, h->chains.SharedWithPresumed(*chain));
}

void PrefixIndex::DropSettled(Holder& holder) {
  while (const auto chain = holder.chains.TakeSettled(blocks_.budget())) {
    DropChain(holder.life, kPresumedTier, *chain, holder.chains.SharedWithPresumed(*chain));
  }
}

void PrefixIndex::AddChain(LifeId life, TierBits tiers, const BlockChain& chain, LifeId also) {
  blocks_.BeginWrite(chain.size());
  uint32_t previous = 0;
  for (size_t i = 0; i < chain.size(); ++i) {
    if (i % kFetchedTogether == 0) {
      const size_t to = std::min(chain.size(), i + kFetchedTogether);
      for (size_t k = i; k < to; ++k) blocks_.FetchLine(chain[k]);
    }
    const uint32_t node = blocks_.FindOrMake(chain[i], previous);
    if (node == 0 || !blocks_.Add(node, life, tiers) ||
        (also != HolderLives::kNoLife && !blocks_.Add(node, also, tiers))) {
      refusals_ += chain.size() - i;
      return;
    }
    previous = node;
  }
}

void PrefixIndex::DropChain(LifeId life, TierBits tiers, const BlockChain& chain, size_t from) {
  nodes_.clear();
  uint32_t previous = 0;
  for (size_t i = from; i < chain.size(); ++i) {
    previous = blocks_.Find(chain[i], previous);
    if (previous != 0) nodes_.push_back(previous);
  }
  // Ends first, so that no block outlives its last holder as some other's parent.
  for (size_t i = nodes_.size(); i-- > 0;) blocks_.Drop(nodes_[i], life, tiers);
}

}  // namespace ember::router
