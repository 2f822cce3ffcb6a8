// FeedReaders: who reads the feed now. There are places for a few; one that has taken nothing for
// long loses its place to a newcomer.
//
// Concurrency: any thread.
#pragma once

#include <functional>
#include <list>
#include <mutex>

#include "kvstore/server/control_metrics.h"
#include "proto/base/status.h"
#include "proto/base/time.h"

namespace ember::kv {

class FeedReaders {
 public:
  static constexpr size_t kMaxReaders = 16;
  static constexpr Duration kStuckAfter = seconds(10);

  // `clock` and `metrics` outlive it.
  FeedReaders(const Clock* clock, ControlMetrics* metrics) : clock_(clock), metrics_(metrics) {}

  // One reader, from its call's start to its end.
  class Place {
   public:
    Place(FeedReaders* readers, std::function<void()> cut_off)
        : readers_(readers), cut_off_(std::move(cut_off)) {}
    ~Place();
    // Around each write to the reader: in between it is waited for.
    void BeginWrite();
    void EndWrite();
    bool was_cut_off() const;

   private:
    friend class FeedReaders;
    FeedReaders* const readers_;
    const std::function<void()> cut_off_;
    TimePoint writing_since_ = TimePoint::max();  // under the readers' mutex, as what follows
    bool was_cut_off_ = false;
  };
  // `cut_off` ends the reader's call; it may come from any thread while the place lives. kBusy when
  // there is no place.
  Result<std::unique_ptr<Place>> Enter(std::function<void()> cut_off);
  size_t size() const;

 private:
  bool CutOffStuck();

  const Clock* const clock_;
  ControlMetrics* const metrics_;
  mutable std::mutex mutex_;
  std::list<Place*> places_;
};

}  // namespace ember::kv
