#include "kvstore/engine/forgotten_keys.h"

namespace ember::kv {

ForgottenKeys::ForgottenKeys(size_t capacity) : ring_(capacity) {}

void ForgottenKeys::Add(const BlockKey& key, MissReason reason) {
  if (ring_.empty()) return;
  uint64_t& slot = ring_[added_ % ring_.size()];
  if (added_ >= ring_.size()) {
    // A key that departed again since then is remembered under its newer departure.
    auto oldest = reasons_.find(slot);
    if (oldest != reasons_.end() && oldest->second.sequence == added_ - ring_.size()) {
      reasons_.erase(oldest);
    }
  }
  slot = std::hash<BlockKey>()(key);
  reasons_[slot] = {reason, added_++};
}

MissReason ForgottenKeys::Reason(const BlockKey& key) const {
  auto it = reasons_.find(std::hash<BlockKey>()(key));
  return it == reasons_.end() ? MissReason::kNeverStored : it->second.reason;
}

}  // namespace ember::kv
