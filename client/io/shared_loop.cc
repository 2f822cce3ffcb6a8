#include "client/io/shared_loop.h"

#include <algorithm>

namespace ember::io {

Result<std::unique_ptr<SharedLoop>> SharedLoop::Make(Backend backend, Duration spin) {
  Result<std::unique_ptr<Loop>> loop =
      MakeLoop(backend == Backend::kAuto ? Backend::kEpoll : backend);
  if (!loop.ok()) return loop.status();
  (*loop)->set_spin(spin);
  return std::make_unique<SharedLoop>(*std::move(loop));
}

SharedLoop::SharedLoop(std::unique_ptr<Loop> loop)
    : loop_(std::move(loop)), running_(!loop_->movable()) {
  if (running_) {
    background_ = std::thread([this] { loop_->Run(); });
  } else {
    background_ = std::thread([this] { RunInBackground(); });
  }
}

SharedLoop::~SharedLoop() {
  {
    const std::lock_guard lock(mutex_);
    EMBER_CHECK(waiting_.empty(), "a call is still waiting");
    stopping_ = true;
    background_wake_.notify_one();
  }
  loop_->Stop();
  background_.join();
  if (loop_->movable()) loop_->Run();  // stopped already: ends what is pending
}

void SharedLoop::Call::Finish() {
  const std::lock_guard lock(loop_->mutex_);
  finished_ = true;
  if (!waiting_) return;
  loop_->EndWaiting(this);
  wake_.notify_one();
}

void SharedLoop::BeginWaiting(Call* call) {
  call->waiting_ = true;
  waiting_.push_back(call);
  waiting_count_.store(waiting_.size(), std::memory_order_relaxed);
}

void SharedLoop::EndWaiting(Call* call) {
  call->waiting_ = false;
  std::erase(waiting_, call);
  waiting_count_.store(waiting_.size(), std::memory_order_relaxed);
}

void SharedLoop::Wait(Call& call, std::function<void()> start) {
  std::unique_lock lock(mutex_);
  if (running_) {
    BeginWaiting(&call);
    loop_->Post(std::move(start));
    call.wake_.wait(lock, [&] { return call.finished_ || call.chosen_; });
    if (call.finished_) return;
    lock.unlock();
  } else {
    running_ = true;
    lock.unlock();
    // After what was posted before.
    if (loop_->HasWork()) {
      loop_->Post(std::move(start));
    } else {
      start();
    }
  }
  // Only this thread can finish the call now, so it may look without the lock.
  loop_->RunUntil([&] { return call.finished_; });
  lock.lock();
  HandOn();
}

void SharedLoop::Post(std::function<void()> fn) {
  const std::lock_guard lock(mutex_);
  loop_->Post(std::move(fn));
  if (running_) return;
  work_left_ = true;
  background_wake_.notify_one();
}

void SharedLoop::HandOn() {
  if (!waiting_.empty()) {
    Call* const next = waiting_.front();
    EndWaiting(next);
    next->chosen_ = true;
    next->wake_.notify_one();
    return;
  }
  running_ = false;
  if (!loop_->HasWork()) return;
  work_left_ = true;
  background_wake_.notify_one();
}

void SharedLoop::RunInBackground() {
  std::unique_lock lock(mutex_);
  for (;;) {
    background_wake_.wait(lock, [this] { return stopping_ || (work_left_ && !running_); });
    if (stopping_) return;
    running_ = true;
    work_left_ = false;
    lock.unlock();
    loop_->RunUntil([this] { return crowded() || !loop_->HasWork(); });
    lock.lock();
    HandOn();
  }
}

}  // namespace ember::io
