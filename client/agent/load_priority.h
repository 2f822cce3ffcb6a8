// LoadPriority: lets loads from the store go first. A load says when it is under way; the pusher
// waits between its batches until none is. Any thread.
#pragma once

#include <condition_variable>
#include <mutex>

#include "proto/base/time.h"

namespace ember::agent {

class LoadPriority {
 public:
  // Held while a load is under way.
  class [[nodiscard]] Hold {
   public:
    explicit Hold(LoadPriority& owner) : owner_(owner) {
      std::lock_guard lock(owner_.mutex_);
      ++owner_.loads_;
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() {
      std::lock_guard lock(owner_.mutex_);
      if (--owner_.loads_ == 0) owner_.idle_.notify_all();
    }

   private:
    LoadPriority& owner_;
  };

  // Returns when no load is under way, or after `limit`: loads without end must not starve pushes.
  void WaitUntilIdle(Duration limit) {
    std::unique_lock lock(mutex_);
    idle_.wait_for(lock, limit, [this] { return loads_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable idle_;
  int loads_ = 0;
};

}  // namespace ember::agent
