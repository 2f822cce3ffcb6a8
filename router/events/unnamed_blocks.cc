#include "router/events/unnamed_blocks.h"

namespace ember::router {
namespace {

constexpr size_t kMaxUnnamed = 16'384;

}  // namespace

void UnnamedBlocks::Add(std::span<const EngineKey> keys) {
  if (unknown_) return;
  keys_.insert(keys.begin(), keys.end());
  if (keys_.size() <= kMaxUnnamed) return;
  keys_.clear();
  unknown_ = true;
}

void UnnamedBlocks::Erase(std::span<const EngineKey> keys) {
  if (keys_.empty()) return;
  for (const EngineKey key : keys) keys_.erase(key);
}

void UnnamedBlocks::Clear() {
  keys_.clear();
  unknown_ = false;
}

}  // namespace ember::router
