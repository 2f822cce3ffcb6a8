#include "router/events/repeated_blocks.h"

#include <algorithm>

namespace ember::router {

void RepeatedBlocks::Remember(std::optional<EngineKey> parent, std::span<const EngineKey> keys,
                              std::span<const BlockHash> names) {
  for (size_t i = 0; i < std::min(keys.size(), names.size()); ++i) {
    const auto [place, added] = blocks_.try_emplace(keys[i]);
    place->second = {.name = names[i], .parent = parent};
    parent = keys[i];
    if (!added) continue;
    order_.push_back(keys[i]);
    if (order_.size() <= kMost) continue;
    const auto oldest = blocks_.find(order_.front());
    removed_.erase(oldest->second.name);
    blocks_.erase(oldest);
    order_.pop_front();
  }
}

void RepeatedBlocks::OnStored(std::span<const EngineKey> keys) {
  if (removed_.empty()) return;
  for (const EngineKey key : keys) {
    if (const auto known = blocks_.find(key); known != blocks_.end()) {
      removed_.erase(known->second.name);
    }
  }
}

void RepeatedBlocks::OnRemoved(std::span<const EngineKey> keys) {
  if (blocks_.empty()) return;
  for (const EngineKey key : keys) {
    if (const auto known = blocks_.find(key); known != blocks_.end()) {
      removed_.emplace(known->second.name, key);
      followed_.clear();
    }
  }
}

std::optional<RepeatedBlocks::Block> RepeatedBlocks::Removed(const BlockHash& name) const {
  const auto removed = removed_.find(name);
  if (removed == removed_.end()) return std::nullopt;
  return Block{removed->second, name, blocks_.at(removed->second).parent};
}

std::optional<RepeatedBlocks::Block> RepeatedBlocks::Removed(EngineKey key) const {
  const auto known = blocks_.find(key);
  return known == blocks_.end() ? std::nullopt : Removed(known->second.name);
}

void RepeatedBlocks::Followed(EngineKey key) {
  if (!any_removed()) return;
  if (followed_.size() >= kMost) followed_.clear();
  followed_.insert(key);
}

void RepeatedBlocks::Clear() {
  followed_.clear();
  blocks_.clear();
  removed_.clear();
  order_.clear();
}

}  // namespace ember::router
