// BodyBudget: the bytes of request bodies that all connections of a server may hold together.
// Safe from any thread. A Charge gives back what it took when it is destroyed.
#pragma once

#include <atomic>
#include <cstddef>

namespace ember::http {

class BodyBudget {
 public:
  explicit BodyBudget(size_t limit) : limit_(limit) {}
  size_t used() const { return used_.load(std::memory_order_relaxed); }

  class Charge {
   public:
    explicit Charge(BodyBudget& budget) : budget_(budget) {}
    Charge(const Charge&) = delete;
    Charge& operator=(const Charge&) = delete;
    ~Charge() { Clear(); }
    // Holds `total` bytes from now on (more than before, or as many); false: the budget is used up.
    bool GrowTo(size_t total) {
      if (total <= held_) return true;
      const size_t more = total - held_;
      if (budget_.used_.fetch_add(more, std::memory_order_relaxed) + more > budget_.limit_) {
        budget_.used_.fetch_sub(more, std::memory_order_relaxed);
        return false;
      }
      held_ = total;
      return true;
    }
    void Clear() {
      budget_.used_.fetch_sub(held_, std::memory_order_relaxed);
      held_ = 0;
    }

   private:
    BodyBudget& budget_;
    size_t held_ = 0;
  };

 private:
  const size_t limit_;
  std::atomic<size_t> used_{0};
};

}  // namespace ember::http
