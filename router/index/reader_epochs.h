// ReaderEpochs: tells the one writer when no reader can see any more what it has unlinked, without
// ever making either wait.
//
// A reader announces the epoch in which it began, in a slot of its own; the writer ends an epoch
// after it has unlinked things, and may reuse them when no reader of that epoch or an earlier one
// is left. Why that is enough: a reader reads the epoch again after its announcement. If the
// writer's scan missed the announcement, then by the single order of these operations the reader
// sees the new epoch there, and with it that the things are unlinked. Concurrency: Enter from any
// thread, Retire and Passed from the writer's.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ember::router {

class ReaderEpochs {
 public:
  using Ticket = uint64_t;

  // One reader's stay. False when too many read at this moment: it may not read then.
  class [[nodiscard]] Stay {
   public:
    explicit Stay(std::atomic<uint64_t>* slot) : slot_(slot) {}
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;
    ~Stay() {
      if (slot_ != nullptr) slot_->store(0, std::memory_order_release);
    }
    explicit operator bool() const { return slot_ != nullptr; }

   private:
    std::atomic<uint64_t>* const slot_;
  };

  Stay Enter() {
    const size_t first = OwnSlot();
    const uint64_t epoch = epoch_.load();
    for (size_t i = 0; i < kSlots; ++i) {
      std::atomic<uint64_t>& slot = slots_[(first + i) % kSlots].began;
      uint64_t nobody = 0;
      if (slot.compare_exchange_strong(nobody, epoch)) {
        (void)epoch_.load();
        return Stay(&slot);
      }
    }
    return Stay(nullptr);
  }

  // What was unlinked before this call may be reused once Passed(ticket).
  Ticket Retire() { return epoch_.fetch_add(1); }
  bool Passed(Ticket ticket) const {
    for (const Slot& slot : slots_) {
      const uint64_t began = slot.began.load();
      if (began != 0 && began <= ticket) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kSlots = 128;
  struct alignas(64) Slot {
    std::atomic<uint64_t> began{0};  // 0: nobody
  };

  // Threads start their search at different slots, so that they seldom meet.
  static size_t OwnSlot() {
    static std::atomic<size_t> threads{0};
    thread_local const size_t own = threads.fetch_add(1, std::memory_order_relaxed);
    return own;
  }

  std::atomic<uint64_t> epoch_{1};
  std::array<Slot, kSlots> slots_;
};

}  // namespace ember::router
