#include "client/agent/slot_table.h"

#include <algorithm>
#include <utility>

#include "client/http/loop.h"

namespace ember::agent {

size_t CommonPrefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const size_t n = std::min(a.size(), b.size());
  return std::mismatch(a.begin(), a.begin() + n, b.begin()).first - a.begin();
}

SlotTable::Lease::Lease(Lease&& other) noexcept
    : table_(std::exchange(other.table_, nullptr)), slot_(other.slot_), epoch_(other.epoch_) {}

SlotTable::Lease& SlotTable::Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    Release();
    table_ = std::exchange(other.table_, nullptr);
    slot_ = other.slot_;
    epoch_ = other.epoch_;
  }
  return *this;
}

void SlotTable::Lease::Release() {
  if (table_ != nullptr) std::exchange(table_, nullptr)->GiveBack(slot_);
}

void SlotTable::Lease::SetContent(SlotContent content) {
  if (epoch_ != table_->epoch_) return;
  table_->slots_[slot_].content = std::move(content);
  table_->on_change_(slot_);
}

void SlotTable::Lease::BeginEnding() {
  epoch_ = table_->epoch_;
  table_->slots_[slot_].ending = true;
}

SlotTable::SlotTable(size_t max_waiting, std::function<void(uint32_t slot)> on_change)
    : max_waiting_(max_waiting), on_change_(std::move(on_change)) {}

void SlotTable::Resize(uint32_t slots) {
  if (slots > slots_.size()) slots_.resize(slots);
  size_ = slots;
  DropAll();
  ServeLine();
}

void SlotTable::DropAll() {
  ++epoch_;
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].content.known && slots_[i].content.tokens.empty()) continue;
    slots_[i].content = {};
    on_change_(i);
  }
}

uint32_t SlotTable::Choose(std::span<const TokenId> prompt, size_t min_prefix) const {
  uint32_t best = size_;
  size_t best_prefix = 0;
  for (uint32_t i = 0; i < size_; ++i) {
    const Slot& slot = slots_[i];
    size_t prefix = slot.content.known ? CommonPrefix(slot.content.tokens, prompt) : 0;
    if (prefix < min_prefix) prefix = 0;
    if (slot.busy && !(slot.ending && prefix > 0)) continue;
    if (best == size_ || prefix > best_prefix ||
        (prefix == best_prefix && slot.last_used < slots_[best].last_used)) {
      best = i;
      best_prefix = prefix;
    }
  }
  return best;
}

SlotTable::Lease SlotTable::Take(uint32_t slot) {
  slots_[slot].busy = true;
  slots_[slot].last_used = ++clock_;
  return Lease(this, slot);
}

void SlotTable::GiveBack(uint32_t slot) {
  slots_[slot].busy = false;
  slots_[slot].ending = false;
  ServeLine();
}

void SlotTable::ServeLine() {
  if (closed_) return;
  for (Waiter& waiter : waiters_) {
    if (waiter.lease.valid()) continue;  // served, its coroutine has not run yet
    const uint32_t slot = Choose(waiter.prompt, waiter.min_prefix);
    if (slot == size_) return;
    if (slots_[slot].busy) continue;  // ending; those behind may find another
    waiter.lease = Take(slot);
    waiter.wake.Cancel();
  }
}

boost::asio::awaitable<Result<SlotTable::Lease>> SlotTable::Acquire(std::vector<TokenId> prompt,
                                                                    size_t min_prefix,
                                                                    Duration timeout,
                                                                    http::Cancellation* gone) {
  if (waiters_.size() >= max_waiting_) co_return BusyError("too many requests wait for a slot");
  const auto self = waiters_.emplace(waiters_.end());
  self->prompt = std::move(prompt);
  self->min_prefix = min_prefix;
  ServeLine();
  if (!self->lease.valid()) {
    http::Cancellation::Registration registration;
    if (gone != nullptr) registration = gone->OnCancel([self] { self->wake.Cancel(); });
    (void)co_await http::SleepFor(timeout, &self->wake);
  }
  Lease lease = std::move(self->lease);
  waiters_.erase(self);
  if (gone != nullptr && gone->cancelled()) co_return CancelledError("the client is gone");
  if (!lease.valid()) co_return DeadlineError("no slot became free in time");
  co_return lease;
}

uint32_t SlotTable::running() const {
  return static_cast<uint32_t>(std::ranges::count_if(slots_, &Slot::busy));
}

}  // namespace ember::agent
