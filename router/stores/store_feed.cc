#include "router/stores/store_feed.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace ember::router {
namespace {

HolderTier TierOf(Tier tier) {
  return tier == Tier::kMemory ? HolderTier::kHost : HolderTier::kDisk;
}

}  // namespace

StoreFeed::StoreFeed(PrefixIndex& index, const std::vector<std::string>& addresses)
    : index_(index) {
  for (const std::string& address : addresses) nodes_.push_back({.address = address, .shards = {}});
}

void StoreFeed::OnEvents(StoreNumber store, const std::vector<StoreEvent>& events) {
  Node& node = nodes_.at(store);
  if (!node.connected) spdlog::info("store {}: heard", node.address);
  node.connected = true;
  node.why.clear();
  for (const StoreEvent& event : events) Apply(node, event);
}

void StoreFeed::Apply(Node& node, const StoreEvent& event) {
  if (event.kind == StoreEvent::Kind::kSnapshot) {
    Resize(node, event.shard_count);
    Shard& shard = node.shards.at(event.shard);
    shard.current = false;
    if (shard.holder == kNoHolder) shard.holder = index_.AddHolder(HolderKind::kStoreNode);
    return index_.ClearHolder(shard.holder);
  }
  if (event.shard >= node.shards.size()) return;  // its snapshot is still to come
  Shard& shard = node.shards[event.shard];
  switch (event.kind) {
    case StoreEvent::Kind::kStored:
      return index_.StoreBlock(shard.holder, TierOf(event.tier), event.key.hash);
    case StoreEvent::Kind::kRemoved:
      return index_.RemoveBlock(shard.holder, TierOf(event.tier), event.key.hash);
    case StoreEvent::Kind::kCurrent:
      shard.current = true;
      if (IsCurrent(node)) spdlog::info("store {}: all of it is known", node.address);
      return;
    case StoreEvent::Kind::kSnapshot:
      return;
  }
}

void StoreFeed::Resize(Node& node, size_t count) {
  for (size_t i = count; i < node.shards.size(); ++i) index_.RemoveHolder(node.shards[i].holder);
  node.shards.resize(count);
}

void StoreFeed::OnLost(StoreNumber store, const Status& why) {
  Node& node = nodes_.at(store);
  if (node.connected) spdlog::warn("store {}: lost: {}", node.address, why.ToString());
  node.connected = false;
  node.why = why.ToString();
  Resize(node, 0);
}

bool StoreFeed::IsCurrent(const Node& node) {
  return node.connected && !node.shards.empty() &&
         std::all_of(node.shards.begin(), node.shards.end(),
                     [](const Shard& shard) { return shard.current; });
}

bool StoreFeed::current() const { return std::all_of(nodes_.begin(), nodes_.end(), IsCurrent); }

std::vector<StoreReport> StoreFeed::Report() const {
  std::vector<StoreReport> reports;
  for (const Node& node : nodes_) {
    StoreReport report{.address = node.address,
                       .connected = node.connected,
                       .current = IsCurrent(node),
                       .why = node.why};
    for (const Shard& shard : node.shards) report.segments += index_.blocks_held(shard.holder);
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace ember::router
