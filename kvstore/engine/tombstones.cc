#include "kvstore/engine/tombstones.h"

#include <algorithm>

namespace ember::kv {

void Tombstones::Add(const PurgeScope& scope, uint64_t epoch) {
  epoch_ = std::max(epoch_, epoch);
  Bury(scope, epoch);
  while (epochs_.size() > capacity_) {
    // The map's order puts everything first, if it is there.
    const bool has_everything = epochs_.begin()->first == PurgeScope::Everything();
    auto oldest =
        std::min_element(std::next(epochs_.begin(), has_everything ? 1 : 0), epochs_.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    Bury(PurgeScope::Everything(), oldest->second);
  }
}

// A purge of everything stands for all older ones.
void Tombstones::Bury(const PurgeScope& scope, uint64_t epoch) {
  if (epoch <= EpochOf(PurgeScope::Everything())) return;
  uint64_t& newest = epochs_[scope];
  newest = std::max(newest, epoch);
  if (scope.kind != PurgeScope::Kind::kEverything) return;
  std::erase_if(epochs_,
                [&](const auto& item) { return item.first != scope && item.second <= newest; });
}

bool Tombstones::Cover(const NamespaceId& ns, uint64_t tenant_hash, uint64_t record_epoch) const {
  if (record_epoch >= epoch_) return false;
  const PurgeScope tenant{.kind = PurgeScope::Kind::kTenant, .ns = {}, .tenant_hash = tenant_hash};
  return record_epoch < std::max({EpochOf(PurgeScope::Everything()),
                                  EpochOf(PurgeScope::OfNamespace(ns)), EpochOf(tenant)});
}

uint64_t Tombstones::EpochOf(const PurgeScope& scope) const {
  auto it = epochs_.find(scope);
  return it == epochs_.end() ? 0 : it->second;
}

}  // namespace ember::kv
