#include "client/io/timer_queue.h"

namespace ember::io {

class TimerQueue::Handle final : public Loop::Timer {
 public:
  Handle(std::shared_ptr<Entries> entries, Key key) : entries_(std::move(entries)), key_(key) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  // The function's captures may own other timers, so it dies after the map is whole again.
  ~Handle() override { auto dropped = entries_->extract(key_); }

 private:
  std::shared_ptr<Entries> entries_;
  Key key_;
};

std::unique_ptr<Loop::Timer> TimerQueue::Start(TimePoint when, std::function<void()> fn) {
  const Key key{when, next_sequence_++};
  entries_->emplace(key, std::move(fn));
  return std::make_unique<Handle>(entries_, key);
}

std::optional<TimePoint> TimerQueue::Next() const {
  if (entries_->empty()) return std::nullopt;
  return entries_->begin()->first.first;
}

void TimerQueue::RunExpired(TimePoint now) {
  const uint64_t started_meanwhile = next_sequence_;
  while (!entries_->empty()) {
    const auto& [when, sequence] = entries_->begin()->first;
    if (when > now || sequence >= started_meanwhile) return;
    // Taken out first: the function may cancel any timer, its own included.
    auto entry = entries_->extract(entries_->begin());
    entry.mapped()();
  }
}

}  // namespace ember::io
