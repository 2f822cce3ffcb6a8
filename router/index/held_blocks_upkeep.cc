#include <algorithm>
#include <array>

#include "router/index/held_blocks.h"

namespace ember::router {
namespace {

// Parts of what the index knows: how much is written in a tick, how much upkeep looks at in one,
// and how much is kept free once memory has been out. A node is looked at often enough that its age
// in 16 bits stays true.
constexpr size_t kTicksPerIndex = 4096;
constexpr size_t kTicksPerRound = 8192;
constexpr uint16_t kOldest = 0x8000;
constexpr size_t kKeptFreeShare = 64;
// A sweep's nodes for each block that is written, and for each write.
constexpr size_t kSweptPerBlock = 4;
constexpr size_t kSweptPerWrite = 64;
constexpr uint32_t kRetiredTogether = 256;
constexpr size_t kReplacedTogether = 8;
// What the two tables need for a node on average, and a little more.
constexpr size_t kTableBytesPerNode = 13;
constexpr size_t kEvictedTogether = 64;
constexpr size_t kSampled = 256;

}  // namespace

void HeldBlocks::BeginWrite(size_t blocks) {
  size_t visits = 0;
  written_ += blocks;
  if (written_ > nodes_.limit() / kTicksPerIndex) {
    written_ = 0;
    now_.store(static_cast<uint16_t>(now_.load(std::memory_order_relaxed) + 1),
               std::memory_order_relaxed);
    visits = nodes_.limit() / kTicksPerRound + 1;
  }
  if (sweeping_ || lives_.has_dead()) visits += kSweptPerWrite + kSweptPerBlock * blocks;
  Visit(visits);
  const size_t kept_free = nodes_.limit() / kKeptFreeShare;
  const bool short_of_nodes = full_ && nodes_.free_count() < kept_free;
  if (short_of_nodes && nodes_.free_count() + nodes_.retired_count() < kept_free) {
    Evict(std::min(blocks + kEvictedTogether, kept_free), 0);
  }
  if (short_of_nodes || nodes_.retired_count() + sets_.retired_count() >= kRetiredTogether ||
      by_hash_.replaced_parts() >= kReplacedTogether) {
    Reclaim();
  }
}

void HeldBlocks::Reclaim() {
  nodes_.Reclaim(epochs_);
  sets_.Reclaim(epochs_);
  by_hash_.Reclaim();
}

bool HeldBlocks::MakeRoom(uint32_t keep) {
  Reclaim();
  if (nodes_.has_free()) return true;
  const size_t needed = (nodes_.limit() + BlockNodes::kChunkNodes) * kTableBytesPerNode;
  const size_t have = by_hash_.part_bytes() + names_.table_bytes();
  if (nodes_.AddChunk(budget_, needed - std::min(needed, have))) return true;
  full_ = true;
  // A reader who stays long must not make us throw everything away.
  if (nodes_.retired_count() > nodes_.limit() / kKeptFreeShare) return false;
  Evict(kEvictedTogether, keep);
  Reclaim();
  return nodes_.has_free();
}

uint16_t HeldBlocks::AgeOf(const BlockNode& node) const {
  return static_cast<uint16_t>(now_.load(std::memory_order_relaxed) + 1 -
                               node.used.load(std::memory_order_relaxed));
}

void HeldBlocks::ChooseHorizon(double share) {
  std::array<uint16_t, kSampled> ages;
  size_t count = 0;
  SeededRandom random(sample_state_++);
  for (size_t tries = 0; tries < 4 * kSampled && count < kSampled; ++tries) {
    const BlockNode& node = nodes_[static_cast<uint32_t>(random.Next() % nodes_.limit())];
    if (node.set.load(std::memory_order_relaxed) != 0) ages[count++] = AgeOf(node);
  }
  horizon_ = 0;
  horizon_left_ = nodes_.limit() / kKeptFreeShare + 1;
  if (count == 0) return;
  std::sort(ages.begin(), ages.begin() + static_cast<ptrdiff_t>(count), std::greater<>());
  horizon_ = ages[static_cast<size_t>(share * static_cast<double>(count - 1))];
}

void HeldBlocks::Evict(size_t wanted, uint32_t keep) {
  // The shares of blocks that are old enough, more when a whole round has found none.
  constexpr std::array<double, 4> kShares = {1.0 / 32, 1.0 / 8, 1.0 / 2, 1};
  size_t share = 0;
  for (uint32_t scanned = 0; wanted > 0; ++scanned) {
    if (scanned > nodes_.limit()) {
      if (++share == kShares.size()) return;
      scanned = 0;
      ChooseHorizon(kShares[share]);
    }
    if (horizon_left_ == 0) ChooseHorizon(kShares[share]);
    if (++hand_ >= nodes_.limit()) hand_ = 1;
    const auto may_go = [&](uint32_t node) {
      const BlockNode& n = nodes_[node];
      return node != keep && n.set.load(std::memory_order_relaxed) != 0 && n.children == 0 &&
             AgeOf(n) >= horizon_;
    };
    // Up its chain, as long as there is no other branch.
    uint32_t node = hand_;
    while (node != 0 && wanted > 0 && may_go(node)) {
      const uint32_t parent = nodes_.Parent(node);
      EvictNode(node);
      ++evictions_;
      --wanted;
      if (horizon_left_ > 0) --horizon_left_;
      node = parent;
    }
  }
}

void HeldBlocks::EvictNode(uint32_t node) {
  BlockNode& n = nodes_[node];
  const uint32_t set = n.set.load(std::memory_order_relaxed);
  for (const SetMember member : sets_.Members(set)) {
    lives_.Count(member.life(), member.tiers(), 0);
  }
  if (set != HolderSets::kEmpty) Replace(n, set, HolderSets::kEmpty);
  FreeIfUnused(node);
}

void HeldBlocks::Visit(size_t nodes) {
  if (nodes == 0 || nodes_.limit() == 0) return;
  if (!sweeping_ && lives_.has_dead()) {
    lives_.BeginSweep();
    sweeping_ = true;
    // From the start, so that what is added meanwhile is not mistaken for a part of the round.
    node_cursor_ = {.at = 0, .left = nodes_.limit() - 1};
    name_cursor_ = {.at = 0, .left = names_.limit() == 0 ? 0 : names_.limit() - 1};
  }
  const auto step = [](Cursor& cursor, uint32_t limit) {
    if (++cursor.at >= limit) cursor.at = 0;
    if (cursor.left > 0) --cursor.left;
    return cursor.at;
  };
  uint32_t clean = 0;
  for (; nodes > 0; --nodes) {
    if (const uint32_t node = step(node_cursor_, nodes_.limit()); node != 0) {
      VisitNode(node, &clean);
    }
    if (names_.limit() > 0) {
      if (const uint32_t name = step(name_cursor_, names_.limit()); name != 0) names_.Sweep(name);
    }
    if (!sweeping_ || node_cursor_.left > 0 || name_cursor_.left > 0) continue;
    lives_.EndSweep(epochs_);
    sweeping_ = false;
    break;
  }
}

void HeldBlocks::VisitNode(uint32_t node, uint32_t* clean) {
  BlockNode& n = nodes_[node];
  const uint32_t set = n.set.load(std::memory_order_relaxed);
  if (set == 0) return;
  if (AgeOf(n) > kOldest) {
    n.used.store(static_cast<uint16_t>(now_.load(std::memory_order_relaxed) + 1 - kOldest),
                 std::memory_order_relaxed);
  }
  if (!sweeping_ || set == *clean) return;
  const uint32_t left = sets_.WithoutAll(set, [&](LifeId life) { return lives_.Sweeping(life); });
  if (left == set) {
    *clean = set;
    return;
  }
  if (left == 0) return EvictNode(node);
  Replace(n, set, left);
  FreeIfUnused(node);
}

}  // namespace ember::router
