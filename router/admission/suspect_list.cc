#include "router/admission/suspect_list.h"

#include <algorithm>

namespace ember::router {
namespace {

constexpr size_t kMaxSuspects = 4096;
constexpr size_t kMaxReplicasOfEach = 64;

}  // namespace

bool SuspectList::Add(const Checksum& digest, uint32_t replica, TimePoint sent, TimePoint now,
                      int breaks) {
  std::erase_if(entries_, [&](const auto& e) { return e.second.last + kMemory <= now; });
  if (entries_.size() >= kMaxSuspects && !entries_.contains(digest)) {
    entries_.erase(std::min_element(
        entries_.begin(), entries_.end(),
        [](const auto& a, const auto& b) { return a.second.last < b.second.last; }));
  }
  Entry& entry = entries_[digest];
  const auto known = entry.at.find(replica);
  if (known != entry.at.end() && sent < known->second) return false;
  const bool elsewhere = entry.at.size() > (known == entry.at.end() ? 0 : 1);
  if (entry.at.size() < kMaxReplicasOfEach) entry.at[replica] = now;
  entry.breaks += breaks;
  entry.last = now;
  return !elsewhere;
}

bool SuspectList::OnBroke(const Checksum& digest, uint32_t replica, TimePoint sent, TimePoint now) {
  return Add(digest, replica, sent, now, 1);
}

bool SuspectList::OnServerError(const Checksum& digest, uint32_t replica, TimePoint sent,
                                TimePoint now) {
  return Add(digest, replica, sent, now, 0);
}

const SuspectList::Entry* SuspectList::Find(const Checksum& digest, TimePoint now) const {
  const auto it = entries_.find(digest);
  return it == entries_.end() || it->second.last + kMemory <= now ? nullptr : &it->second;
}

std::optional<uint32_t> SuspectList::FailedAt(const Checksum& digest, TimePoint now) const {
  const Entry* entry = Find(digest, now);
  if (entry == nullptr || entry->breaks > 0 || entry->at.size() != 1) return {};
  return entry->at.begin()->first;
}

Duration SuspectList::TimeLeft(const Checksum& digest, TimePoint now) const {
  const Entry* entry = Find(digest, now);
  return entry == nullptr ? Duration::zero() : entry->last + kMemory - now;
}

int SuspectList::Breaks(const Checksum& digest, TimePoint now) const {
  const Entry* entry = Find(digest, now);
  return entry == nullptr ? 0 : entry->breaks;
}

}  // namespace ember::router
