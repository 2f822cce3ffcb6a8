// ShardEngine's leases: what keeps segments where they are for readers that come back.
#include "kvstore/engine/shard_engine.h"

namespace ember::kv {

bool ShardEngine::MayLease(std::span<Entry* const> entries, size_t more_keys) const {
  uint64_t new_bytes = 0;
  for (const Entry* entry : entries) new_bytes += entry->leases == 0 ? entry->extent.length : 0;
  const auto limit = static_cast<uint64_t>(options_.max_leased_share * index_.memory().capacity());
  return leased_bytes_ + new_bytes <= limit &&
         leased_keys_ + entries.size() + more_keys <= options_.max_leased_keys;
}

void ShardEngine::PinForLease(Entry* entry) {
  if (entry->leases++ == 0) leased_bytes_ += entry->extent.length;
  ++leased_keys_;
  index_.Pin(entry);
}

uint64_t ShardEngine::TakeLease(OwnerId owner, Lease lease, Duration duration) {
  if (leases_.size() >= options_.max_leases || !MayLease(lease.entries, lease.regions.size())) {
    return 0;
  }
  for (Entry* entry : lease.entries) PinForLease(entry);
  leased_keys_ += lease.regions.size();
  uint64_t id = 0;
  while (id == 0 || leases_.Find(id) != nullptr) id = random_->Next();
  leases_.Insert(id, owner, clock_->Now() + std::min(duration, options_.max_lease),
                 std::move(lease));
  SetGauges();
  return id;
}

bool ShardEngine::AddToLease(const Pin& pin, Duration duration, uint64_t* lease_id) {
  Lease* const lease = leases_.Find(*lease_id);
  if (lease == nullptr) {
    *lease_id = TakeLease(kNoOwner, Lease{.entries = {pin.entry_}, .regions = {}}, duration);
    return *lease_id != 0;
  }
  if (!MayLease({&pin.entry_, 1}, 0)) return false;
  PinForLease(pin.entry_);
  lease->entries.push_back(pin.entry_);
  return true;
}

void ShardEngine::Release(uint64_t lease_id) {
  Lease* lease = leases_.Find(lease_id);
  if (lease == nullptr) return;
  for (Entry* entry : lease->entries) {
    if (--entry->leases == 0) leased_bytes_ -= entry->extent.length;
    index_.Unpin(entry);
  }
  leased_keys_ -= lease->keys();
  leases_.Erase(lease_id);
  SetGauges();
}

}  // namespace ember::kv
