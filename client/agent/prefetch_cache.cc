#include "client/agent/prefetch_cache.h"

namespace ember::agent {

const PrefetchCache::Segment* PrefetchCache::At(const SegmentRef& ref) const {
  const auto found = by_key_.find(ref.key);
  if (found == by_key_.end() || (*found->second)->proof != ref.proof) return nullptr;
  return &*found->second;
}

std::vector<PrefetchCache::Segment> PrefetchCache::Find(std::span<const SegmentRef> refs) {
  std::vector<Segment> out(refs.size());
  for (size_t i = refs.size(); i-- > 0;) {
    const Segment* segment = At(refs[i]);
    if (segment == nullptr) continue;
    out[i] = *segment;
    segments_.splice(segments_.begin(), segments_, by_key_.at(refs[i].key));
  }
  return out;
}

size_t PrefetchCache::ReadyPrefix(std::span<const SegmentRef> refs) const {
  size_t n = 0;
  for (; n < refs.size(); ++n) {
    const Segment* segment = At(refs[n]);
    if (segment == nullptr || !(*segment)->ready) break;
  }
  return n;
}

PrefetchCache::Segment PrefetchCache::Add(const SegmentRef& ref, size_t bytes, TimePoint now) {
  if (by_key_.contains(ref.key)) return nullptr;  // of another proof
  for (auto at = segments_.end(); bytes_ + bytes > max_bytes_ && at != segments_.begin();) {
    --at;
    if (at->use_count() == 1) at = Erase(at);
  }
  if (bytes_ + bytes > max_bytes_) return nullptr;
  segments_.push_front(std::make_shared<PrefetchedSegment>(ref, bytes, now + keep_));
  by_key_[ref.key] = segments_.begin();
  bytes_ += bytes;
  metrics_.prefetch_held_bytes.Set(static_cast<double>(bytes_));
  return segments_.front();
}

void PrefetchCache::Drop(std::span<const Segment> segments) {
  for (const Segment& segment : segments) {
    if (segment == nullptr) continue;
    const auto found = by_key_.find(segment->key);
    if (found != by_key_.end() && *found->second == segment) Erase(found->second);
  }
}

void PrefetchCache::Sweep(TimePoint now) {
  for (auto at = segments_.begin(); at != segments_.end();) {
    at = (*at)->deadline <= now && at->use_count() == 1 ? Erase(at) : std::next(at);
  }
}

PrefetchCache::List::iterator PrefetchCache::Erase(List::iterator at) {
  const PrefetchedSegment& segment = **at;
  bytes_ -= segment.bytes;
  metrics_.prefetch_held_bytes.Set(static_cast<double>(bytes_));
  if (segment.ready && !segment.used) metrics_.prefetch_wasted_bytes.Add(segment.bytes);
  by_key_.erase(segment.key);
  return segments_.erase(at);
}

}  // namespace ember::agent
