#include "router/admission/suspect_list.h"

namespace ember::router {
namespace {

constexpr size_t kMaxSuspects = 4096;
constexpr size_t kMaxReplicasOfEach = 64;

}  // namespace

bool SuspectList::Empty(TimePoint now) {
  while (!entries_.empty() && IsOver(entries_.Oldest(), now)) entries_.DropOldest();
  return entries_.empty();
}

bool SuspectList::OnFailure(Failure failure, const Checksum& digest, uint32_t replica,
                            TimePoint sent, TimePoint now) {
  if (Find(digest, now) == nullptr) {
    entries_.Drop(digest);
    entries_.Put(digest, {});
    if (entries_.size() > kMaxSuspects) entries_.DropOldest();
  }
  Entry& entry = *entries_.Find(digest);
  const auto known = entry.at.find(replica);
  if (known != entry.at.end() && sent < known->second) return false;
  const bool elsewhere = entry.at.size() > (known == entry.at.end() ? 0 : 1);
  if (entry.at.size() < kMaxReplicasOfEach) entry.at[replica] = now;
  if (failure == Failure::kBroke) ++entry.breaks;
  entry.last = now;
  return !elsewhere;
}

SuspectList::Entry* SuspectList::Find(const Checksum& digest, TimePoint now) {
  Entry* entry = entries_.Find(digest);
  return entry == nullptr || IsOver(*entry, now) ? nullptr : entry;
}

std::optional<uint32_t> SuspectList::FailedAt(const Checksum& digest, TimePoint now) {
  const Entry* entry = Find(digest, now);
  if (entry == nullptr || entry->breaks > 0 || entry->at.size() != 1) return {};
  return entry->at.begin()->first;
}

Duration SuspectList::TimeLeft(const Checksum& digest, TimePoint now) {
  const Entry* entry = Find(digest, now);
  return entry == nullptr ? Duration::zero() : entry->last + kMemory - now;
}

int SuspectList::Breaks(const Checksum& digest, TimePoint now) {
  const Entry* entry = Find(digest, now);
  return entry == nullptr ? 0 : entry->breaks;
}

}  // namespace ember::router
