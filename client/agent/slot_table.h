// SlotTable: which of the engine's slots holds what, as far as is known, and who uses it now. Every
// request has one slot to itself from before its prefix is loaded until it was saved.
//
// A slot's content is a belief. It is dropped whenever the engine may have changed it without us
// (restart, broken connection, fewer cached tokens than believed), and an unknown slot is to be
// erased before anything is computed in it.
//
// Concurrency: the HTTP loop's thread only. Life: must outlive its leases and waiting coroutines.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <list>
#include <span>
#include <vector>

#include "client/http/cancellation.h"
#include "proto/base/status.h"
#include "proto/base/time.h"
#include "proto/model/block_hash.h"

namespace ember::agent {

struct SlotContent {
  bool known = false;  // false: whatever is in there must not be built upon
  std::vector<TokenId> tokens;
};

class SlotTable {
 public:
  // Move-only; gives the slot back when destroyed.
  class [[nodiscard]] Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&& other) noexcept;
    ~Lease() { Release(); }
    void Release();

    bool valid() const { return table_ != nullptr; }
    uint32_t slot() const { return slot_; }
    const SlotContent& content() const { return table_->slots_[slot_].content; }
    // What the slot holds now. Ignored when beliefs were dropped since the lease began or was
    // renewed: what its owner knows may be older than that.
    void SetContent(SlotContent content);
    // The reply is over, only the save is left: a request that can use the slot's content waits for
    // it rather than compute that content elsewhere. What the owner learns from here on is newer
    // than any DropAll of the past.
    void BeginEnding();

   private:
    friend class SlotTable;
    Lease(SlotTable* table, uint32_t slot) : table_(table), slot_(slot), epoch_(table->epoch_) {}
    SlotTable* table_ = nullptr;
    uint32_t slot_ = 0;
    uint64_t epoch_ = 0;
  };

  // `on_change` is called with a slot whenever its content changed. More than `max_waiting` waiting
  // requests are refused.
  SlotTable(size_t max_waiting, std::function<void(uint32_t slot)> on_change);

  // The engine has that many slots; all contents are unknown. Slots in use stay so.
  void Resize(uint32_t slots);

  // A slot for this prompt: the idle or ending one with the longest common prefix if that is at
  // least `min_prefix` tokens, else the idle one not used for longest. Waits in line for it if need
  // be.
  // kBusy: the line is full. kDeadline. kCancelled: `gone` (may be null) fired.
  boost::asio::awaitable<Result<Lease>> Acquire(std::vector<TokenId> prompt, size_t min_prefix,
                                                Duration timeout, http::Cancellation* gone);

  // Whether Acquire would have to wait for a slot with other contents.
  bool WouldWait(std::span<const TokenId> prompt, size_t min_prefix) const {
    return Choose(prompt, min_prefix) == size_;
  }

  // Forgets what every slot holds.
  void DropAll();
  // Nobody in line is served any more: the loop has stopped and waiting coroutines will not run.
  void Close() { closed_ = true; }

  const SlotContent& content(uint32_t slot) const { return slots_[slot].content; }

  uint32_t size() const { return size_; }
  uint32_t running() const;
  size_t waiting() const { return waiters_.size(); }

 private:
  struct Slot {
    SlotContent content;
    bool busy = false;
    bool ending = false;  // busy, but not for long
    uint64_t last_used = 0;
  };
  struct Waiter {
    std::vector<TokenId> prompt;
    size_t min_prefix = 0;
    http::Cancellation wake;
    Lease lease;
  };

  // The best slot, maybe an ending one; size_ when all are busy.
  uint32_t Choose(std::span<const TokenId> prompt, size_t min_prefix) const;
  Lease Take(uint32_t slot);
  void GiveBack(uint32_t slot);
  void ServeLine();

  const size_t max_waiting_;
  const std::function<void(uint32_t)> on_change_;
  std::vector<Slot> slots_;  // never shrinks: leases refer to it
  uint32_t size_ = 0;        // slots the engine has now
  uint64_t epoch_ = 0;
  uint64_t clock_ = 0;
  bool closed_ = false;
  std::list<Waiter> waiters_;
};

// Length of the common prefix.
size_t CommonPrefix(std::span<const TokenId> a, std::span<const TokenId> b);

}  // namespace ember::agent
