#include "router/admission/suspect_list.h"

#include <algorithm>

namespace ember::router {
namespace {

constexpr size_t kMaxSuspects = 4096;
constexpr size_t kMaxBroken = 64;  // replicas remembered of each

}  // namespace

void SuspectList::OnBroke(const Checksum& digest, uint32_t replica, TimePoint sent, TimePoint now) {
  std::erase_if(entries_, [&](const auto& e) { return e.second.last + kMemory <= now; });
  if (entries_.size() >= kMaxSuspects && !entries_.contains(digest)) {
    entries_.erase(std::min_element(
        entries_.begin(), entries_.end(),
        [](const auto& a, const auto& b) { return a.second.last < b.second.last; }));
  }
  Entry& entry = entries_[digest];
  const auto known = entry.broken.find(replica);
  if (known != entry.broken.end() && sent < known->second) return;
  if (entry.broken.size() < kMaxBroken) entry.broken[replica] = now;
  ++entry.breaks;
  entry.last = now;
}

int SuspectList::Breaks(const Checksum& digest, TimePoint now) const {
  const auto it = entries_.find(digest);
  return it == entries_.end() || it->second.last + kMemory <= now ? 0 : it->second.breaks;
}

}  // namespace ember::router
