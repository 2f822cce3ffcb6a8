// Verdicts: what a run has counted, and every promise that it has seen broken. Any thread.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

namespace ember::testing {

class Verdicts {
 public:
  static constexpr size_t kMaxKept = 50;

  void Broken(std::string what) {
    const std::lock_guard lock(mutex_);
    ++broken_;
    if (kept_.size() < kMaxKept) kept_.push_back(std::move(what));
  }
  bool clean() const { return broken_ == 0; }
  uint64_t broken() const { return broken_; }
  std::vector<std::string> kept() const {
    const std::lock_guard lock(mutex_);
    return kept_;
  }

  std::atomic<uint64_t> puts{0};     // segments acknowledged at any level
  std::atomic<uint64_t> durable{0};  // of them at `disk`
  std::atomic<uint64_t> hits{0};     // segments whose bytes were compared
  std::atomic<uint64_t> hit_bytes{0};
  std::atomic<uint64_t> must_hits{0};       // of them promised
  std::atomic<uint64_t> allowed_misses{0};  // of what was never promised, or is evictable
  std::atomic<uint64_t> purges{0};
  std::atomic<uint64_t> purged_misses{0};  // checks that something purged is away

 private:
  mutable std::mutex mutex_;
  std::atomic<uint64_t> broken_{0};
  std::vector<std::string> kept_;
};

}  // namespace ember::testing
