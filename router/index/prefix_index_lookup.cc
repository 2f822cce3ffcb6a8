#include <algorithm>
#include <array>

#include "router/index/prefix_index.h"

namespace ember::router {
namespace {

constexpr uint32_t kUnbroken = UINT32_MAX;
// How far ahead memory is fetched once blocks turn out not to lie side by side: where an item is,
// and the item.
constexpr size_t kLinesAhead = 16;
constexpr size_t kItemsAhead = 8;

// The replicas that have all blocks so far, and when the others fell out.
class Matching {
 public:
  explicit Matching(const HolderLives& lives) : lives_(lives) {}

  // The first block's holders.
  void Begin(std::span<const SetMember> members) {
    matches_.reserve(members.size());
    for (const SetMember m : members) {
      const HolderLives::Living living = lives_.Of(m.life());
      if (!living.alive || living.kind != HolderKind::kReplica) continue;
      const bool on_device = (m.tiers() & kDeviceTiers) != 0;
      unbroken_[count_++] = {m.life(), static_cast<uint16_t>(matches_.size())};
      matches_.push_back({living.holder, on_device ? kUnbroken : 0, kUnbroken});
    }
  }

  // The holders of block number `block` and those behind it.
  void GoOn(std::span<const SetMember> members, uint32_t block) {
    size_t left = 0;
    auto member = members.begin();
    for (size_t i = 0; i < count_; ++i) {
      const Unbroken own = unbroken_[i];
      while (member != members.end() && member->life() < own.life) ++member;
      HolderMatch& match = matches_[own.match];
      const bool there = member != members.end() && member->life() == own.life;
      if (match.device_blocks == kUnbroken && !(there && (member->tiers() & kDeviceTiers) != 0)) {
        match.device_blocks = block;
      }
      if (there) {
        unbroken_[left++] = own;
      } else {
        match.any_tier_blocks = block;
      }
    }
    count_ = left;
  }

  bool empty() const { return count_ == 0; }

  std::vector<HolderMatch> End(uint32_t blocks) {
    for (size_t i = 0; i < count_; ++i) {
      HolderMatch& match = matches_[unbroken_[i].match];
      if (match.device_blocks == kUnbroken) match.device_blocks = blocks;
      match.any_tier_blocks = blocks;
    }
    return std::move(matches_);
  }

 private:
  struct Unbroken {
    LifeId life;
    uint16_t match;
  };
  const HolderLives& lives_;
  std::vector<HolderMatch> matches_;
  std::array<Unbroken, kMaxLives> unbroken_;
  size_t count_ = 0;
};

bool AnyStore(const HolderLives& lives, std::span<const SetMember> members) {
  return std::ranges::any_of(members, [&](SetMember m) {
    const HolderLives::Living living = lives.Of(m.life());
    return living.alive && living.kind == HolderKind::kStoreNode;
  });
}

// Before the chain's first block is looked at; `all`: nothing was fetched for those before it.
void FetchAhead(const HeldBlocks& blocks, std::span<const BlockHash> chain, bool all) {
  for (size_t i = all ? 1 : kLinesAhead; i < std::min(chain.size(), kLinesAhead + 1); ++i) {
    blocks.FetchLine(chain[i]);
  }
  for (size_t i = all ? 1 : kItemsAhead; i < std::min(chain.size(), kItemsAhead + 1); ++i) {
    blocks.FetchItem(chain[i]);
  }
}

}  // namespace

PrefixLookup PrefixIndex::Lookup(std::span<const BlockHash> chain,
                                 uint32_t blocks_per_segment) const {
  PrefixLookup found;
  const ReaderEpochs::Stay stay = blocks_.Enter();
  if (!stay || chain.empty()) return found;
  Matching replicas(blocks_.lives());
  bool in_store = true;  // all segments so far
  bool stored = false;   // the block
  uint32_t node = 0;
  uint32_t set = 0;
  size_t scattered = 0;  // blocks in a row that did not lie beside the one before
  size_t block = 0;
  while (block < chain.size()) {
    const uint32_t beside = node + 1;
    node = blocks_.Find(chain[block], node);
    scattered = node == beside ? 0 : scattered + 1;
    if (scattered > 1) FetchAhead(blocks_, chain.subspan(block), scattered == 2);
    const uint32_t before = set;
    set = node == 0 ? HolderSets::kEmpty : blocks_.SetOf(node);
    if (set != before) {
      const auto members = set == 0 ? std::span<const SetMember>() : blocks_.sets().Members(set);
      if (block == 0) {
        replicas.Begin(members);
      } else {
        replicas.GoOn(members, static_cast<uint32_t>(block));
      }
      if (in_store) stored = AnyStore(blocks_.lives(), members);
    }
    ++block;
    if (node != 0) {
      blocks_.MarkUsed(node);
      const size_t run = blocks_.RunBeside(node, set, chain.subspan(block));
      node += static_cast<uint32_t>(run);
      block += run;
      if (run > 0) scattered = 0;
    }
    if (in_store) {
      const size_t segments_end = block - block % blocks_per_segment;
      if (stored) {
        found.store_blocks = static_cast<uint32_t>(segments_end);
      } else {
        in_store = segments_end == found.store_blocks;
      }
    }
    if (!replicas.empty()) continue;
    if (!in_store) break;
    // Only the stores are left, and of what they hold only segments' ends are known.
    block += blocks_per_segment - 1 - block % blocks_per_segment;
  }
  found.holders = replicas.End(static_cast<uint32_t>(std::min(block, chain.size())));
  return found;
}

}  // namespace ember::router
