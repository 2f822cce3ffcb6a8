#include "tests/unit/agent/fake_store.h"

namespace ember::agent {

MatchResult FakeStore::Match(std::span<const SegmentRef> segments, Duration timeout,
                             const MatchOptions&) {
  ++matches_;
  std::unique_lock lock(mutex_);
  const Faults faults = faults_;
  MatchResult out;
  bool unbroken = true;
  for (const SegmentRef& ref : segments) {
    SegmentMatch match;
    const auto found = segments_.find(ref.key);
    if (faults.down || faults.frozen) {
      match.miss = faults.down ? MissReason::kLostNode : MissReason::kDeadline;
    } else if (found == segments_.end()) {
      match.miss = MissReason::kNeverStored;
    } else {
      match.payload_bytes = found->second.size();
    }
    unbroken = unbroken && match.miss == MissReason::kNone;
    if (unbroken) ++out.usable;
    out.segments.push_back(match);
  }
  if (faults.frozen) thaw_.wait_for(lock, timeout, [this] { return !faults_.frozen; });
  return out;
}

GetResult FakeStore::Get(std::span<const GetRequest> requests, const LayoutDigest&,
                         Duration timeout) {
  ++gets_;
  std::unique_lock lock(mutex_);
  GetResult out;
  if (!thaw_.wait_for(lock, timeout, [this] { return !faults_.hold_gets; })) {
    out.misses.assign(requests.size(), MissReason::kDeadline);
    return out;
  }
  out.headers.resize(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto found = segments_.find(requests[i].ref.key);
    const bool there = found != segments_.end() && i < faults_.usable_at_get && !faults_.match_only;
    out.misses.push_back(there ? MissReason::kNone : MissReason::kEvicted);
    if (!there || out.usable < i || found->second.size() != requests[i].buffer.size()) continue;
    std::memcpy(requests[i].buffer.data(), found->second.data(), found->second.size());
    if (i == faults_.wrong_shape_at) requests[i].buffer[8] ^= std::byte{0xff};
    ++out.usable;
    out.bytes += found->second.size();
  }
  return out;
}

std::vector<PutOutcome> FakeStore::Put(std::span<const PutRequest> requests, const LayoutDigest&,
                                       Duration, const PutOptions&) {
  std::lock_guard lock(mutex_);
  std::vector<PutOutcome> out(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    if (faults_.down || faults_.frozen) {
      out[i].status = UnavailableError("down");
      continue;
    }
    out[i].was_there = segments_.contains(requests[i].ref.key);
    out[i].copies = 1;
    first_block_[requests[i].ref.key] = requests[i].ref.first_block;
    segments_.try_emplace(requests[i].ref.key, requests[i].payload.begin(),
                          requests[i].payload.end());
  }
  return out;
}

void FakeStore::Set(Faults faults) {
  std::lock_guard lock(mutex_);
  faults_ = faults;
  thaw_.notify_all();
}
void FakeStore::Purge(uint32_t keep) {
  std::lock_guard lock(mutex_);
  std::erase_if(segments_, [&](const auto& entry) { return first_block_[entry.first] >= keep; });
}
size_t FakeStore::size() const {
  std::lock_guard lock(mutex_);
  return segments_.size();
}

}  // namespace ember::agent
