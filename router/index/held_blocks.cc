#include "router/index/held_blocks.h"

#include <algorithm>

#include "proto/base/check.h"

namespace ember::router {
namespace {

// Nodes ahead of the one that is read, whose memory is on its way.
constexpr size_t kReadAhead = 16;
// Enough for a small index to be swept before the call returns.
constexpr size_t kWrittenByAnEnd = 1024;

}  // namespace

HeldBlocks::HeldBlocks(size_t max_bytes, uint64_t seed)
    : budget_(max_bytes),
      mix_(seed),
      nodes_(max_bytes),
      sets_(budget_, seed + 1),
      by_hash_({&nodes_, mix_}, nodes_.max_nodes(), budget_, TableMemory::kBlocks, &epochs_),
      names_(nodes_, sets_, budget_, seed + 2),
      sample_state_(seed) {
  EMBER_CHECK(budget_.TakeForTables(sizeof(*this) + nodes_.bytes() + sets_.bytes() +
                                    by_hash_.bytes() + names_.bytes()),
              "the least that an index may have");
}

uint32_t HeldBlocks::Neighbour(uint32_t previous, const BlockHash& hash) const {
  const uint32_t node = previous + 1;
  if (previous == 0 || node >= nodes_.limit()) return 0;
  return SetOf(node) != 0 && nodes_[node].hash == hash ? node : 0;
}

uint32_t HeldBlocks::Find(const BlockHash& hash, uint32_t previous) const {
  if (const uint32_t node = Neighbour(previous, hash); node != 0) return node;
  return by_hash_.Find(mix_(hash), [&](uint32_t node) { return nodes_[node].hash == hash; });
}

size_t HeldBlocks::RunBeside(uint32_t node, uint32_t set,
                             std::span<const BlockHash> following) const {
  // It went a moment ago. The hashes of free nodes must not be read: they may be written.
  if (set == 0) return 0;
  // Within the chunk; the first node of the next is found as any other.
  const size_t most = std::min<size_t>(following.size(), nodes_.LeftInChunk(node));
  const BlockNode* first = &nodes_[node];
  const auto now = static_cast<uint16_t>(now_.load(std::memory_order_relaxed) + 1);
  size_t run = 0;
  for (; run < most; ++run) {
    const BlockNode& next = first[run + 1];
    if (next.set.load(std::memory_order_acquire) != set || next.hash != following[run]) break;
    __builtin_prefetch(&next + kReadAhead);
    MarkUsed(next, now);
  }
  return run;
}

void HeldBlocks::MarkUsed(uint32_t node) const {
  // Later than everything that was written so far.
  MarkUsed(nodes_[node], static_cast<uint16_t>(now_.load(std::memory_order_relaxed) + 1));
}

void HeldBlocks::MarkUsed(const BlockNode& node, uint16_t now) {
  if (node.used.load(std::memory_order_relaxed) != now) {
    node.used.store(now, std::memory_order_relaxed);
  }
}

uint32_t HeldBlocks::FindOrMake(const BlockHash& hash, uint32_t previous) {
  if (const uint32_t node = Neighbour(previous, hash); node != 0) return node;
  const uint64_t mixed = mix_(hash);
  const auto same = [&](uint32_t node) { return nodes_[node].hash == hash; };
  const bool room = by_hash_.Prepare(mixed);
  auto place = by_hash_.Locate(mixed, same);
  if (place.item != 0) return place.item;
  if (!room) return 0;
  if (!nodes_.has_free()) {
    if (!MakeRoom(previous)) return 0;
    place = by_hash_.Locate(mixed, same);  // room may have been made where it was
  }
  const uint32_t node = nodes_.Take();
  BlockNode& n = nodes_[node];
  n.hash = hash;
  n.children = 0;
  nodes_.Parent(node) = previous;
  if (previous != 0) AddChild(previous);
  sets_.Hold(HolderSets::kEmpty);
  n.set.store(HolderSets::kEmpty, std::memory_order_release);
  by_hash_.Insert(place, mixed, node);
  return node;
}

bool HeldBlocks::Add(uint32_t node, LifeId life, TierBits tiers) {
  BlockNode& n = nodes_[node];
  const uint32_t from = n.set.load(std::memory_order_relaxed);
  const auto [to, before] = sets_.With(from, life, tiers);
  if (to == 0) {
    FreeIfUnused(node);
    return false;
  }
  if (to != from) {
    lives_.Count(life, before, before | tiers);
    Replace(n, from, to);
  }
  n.used.store(now_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  return true;
}

void HeldBlocks::Drop(uint32_t node, LifeId life, TierBits tiers) {
  BlockNode& n = nodes_[node];
  const uint32_t from = n.set.load(std::memory_order_relaxed);
  if (from == 0) return;  // went with its last child
  const auto [to, before] = sets_.Without(from, life, tiers);
  if (to == from) return;
  if (to == 0) return EvictNode(node);  // no memory even for a smaller set
  lives_.Count(life, before, before & ~tiers);
  Replace(n, from, to);
  FreeIfUnused(node);
}

void HeldBlocks::Replace(BlockNode& node, uint32_t from, uint32_t to) {
  if (from == HolderSets::kEmpty) ++held_;
  if (to == HolderSets::kEmpty) --held_;
  sets_.Hold(to);
  node.set.store(to, std::memory_order_release);
  sets_.Release(from);
}

void HeldBlocks::FreeIfUnused(uint32_t node) {
  while (node != 0) {
    BlockNode& n = nodes_[node];
    if (n.set.load(std::memory_order_relaxed) != HolderSets::kEmpty || n.children > 0) return;
    const uint32_t parent = nodes_.Parent(node);
    by_hash_.Erase(mix_(n.hash), node);
    names_.ForgetNode(node);
    n.set.store(0, std::memory_order_release);
    sets_.Release(HolderSets::kEmpty);
    nodes_.Retire(node);
    if (parent != 0) RemoveChild(parent);
    node = parent;
  }
}

void HeldBlocks::AddChild(uint32_t node) {
  uint16_t& children = nodes_[node].children;
  if (children == kManyChildren) {
    ++many_children_[node];
  } else if (++children == kManyChildren) {
    many_children_[node] = kManyChildren;
  }
}

void HeldBlocks::RemoveChild(uint32_t node) {
  uint16_t& children = nodes_[node].children;
  if (children != kManyChildren) {
    --children;
  } else if (--many_children_[node] < kManyChildren) {
    children = static_cast<uint16_t>(many_children_[node]);
    many_children_.erase(node);
  }
}

LifeId HeldBlocks::BeginLife(HolderId holder, HolderKind kind) {
  lives_.Reclaim(epochs_);
  return lives_.Begin(holder, kind);
}

void HeldBlocks::EndLife(LifeId life) {
  lives_.End(life);
  BeginWrite(kWrittenByAnEnd);
}

}  // namespace ember::router
