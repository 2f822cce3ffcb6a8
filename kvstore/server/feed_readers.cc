#include "kvstore/server/feed_readers.h"

#include <algorithm>

namespace ember::kv {

Result<std::unique_ptr<FeedReaders::Place>> FeedReaders::Enter(std::function<void()> cut_off) {
  const std::lock_guard lock(mutex_);
  if (places_.size() >= kMaxReaders && !CutOffStuck()) {
    metrics_->feed_refused.Add();
    return BusyError("the feed has its " + std::to_string(kMaxReaders) + " readers already");
  }
  auto place = std::make_unique<Place>(this, std::move(cut_off));
  places_.push_back(place.get());
  metrics_->feed_readers.Set(static_cast<double>(places_.size()));
  return place;
}

// The one that has been waited for longest, if that is long.
bool FeedReaders::CutOffStuck() {
  const auto slowest = std::ranges::min_element(places_, {}, &Place::writing_since_);
  if (slowest == places_.end() || (*slowest)->writing_since_ == TimePoint::max() ||
      clock_->Now() - (*slowest)->writing_since_ < kStuckAfter) {
    return false;
  }
  (*slowest)->was_cut_off_ = true;
  (*slowest)->cut_off_();
  metrics_->feed_cut_off.Add();
  places_.erase(slowest);
  return true;
}

size_t FeedReaders::size() const {
  const std::lock_guard lock(mutex_);
  return places_.size();
}

FeedReaders::Place::~Place() {
  const std::lock_guard lock(readers_->mutex_);
  readers_->places_.remove(this);
  readers_->metrics_->feed_readers.Set(static_cast<double>(readers_->places_.size()));
}

void FeedReaders::Place::BeginWrite() {
  const std::lock_guard lock(readers_->mutex_);
  writing_since_ = readers_->clock_->Now();
}

void FeedReaders::Place::EndWrite() {
  const std::lock_guard lock(readers_->mutex_);
  writing_since_ = TimePoint::max();
}

bool FeedReaders::Place::was_cut_off() const {
  const std::lock_guard lock(readers_->mutex_);
  return was_cut_off_;
}

}  // namespace ember::kv
