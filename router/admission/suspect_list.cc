#include "router/admission/suspect_list.h"

namespace ember::router {
namespace {

constexpr size_t kMaxSuspects = 4096;
constexpr size_t kMaxReplicasOfEach = 64;

Duration HoldAfter(int breaks) {
  Duration hold = SuspectList::kFirstHold;
  while (breaks-- > SuspectList::kGuilty && hold < SuspectList::kLongestHold) hold *= 2;
  return hold;
}

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
  const bool together = known != entry.at.end() && sent < known->second.when;
  if (together && (failure != Failure::kBroke || known->second.how == Failure::kBroke))
    return false;
  const bool elsewhere = entry.at.size() > (known == entry.at.end() ? 0 : 1);
  if (entry.at.size() < kMaxReplicasOfEach) entry.at[replica] = {now, failure};
  entry.last = now;
  if (failure == Failure::kBroke) AddBreak(&entry, now);
  return !together && !elsewhere;
}

void SuspectList::OnDeath(uint32_t replica, TimePoint now) {
  entries_.ForEach([&](Entry& entry) {
    const auto known = entry.at.find(replica);
    if (known == entry.at.end() || known->second.how != Failure::kServerError) return;
    if (known->second.when + kLastWords <= now) return;
    known->second = {now, Failure::kBroke};
    AddBreak(&entry, now);
  });
}

void SuspectList::AddBreak(Entry* entry, TimePoint now) {
  entry->last = now;
  if (++entry->breaks >= kGuilty) entry->held_until = now + HoldAfter(entry->breaks);
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

Duration SuspectList::RefusedFor(const Checksum& digest, TimePoint now) {
  Entry* entry = Find(digest, now);
  if (entry == nullptr || entry->breaks < kGuilty) return Duration::zero();
  if (now < entry->held_until) return entry->held_until - now;
  entry->held_until = now + kFirstHold;
  return Duration::zero();
}

int SuspectList::Breaks(const Checksum& digest, TimePoint now) {
  const Entry* entry = Find(digest, now);
  return entry == nullptr ? 0 : entry->breaks;
}

}  // namespace ember::router
