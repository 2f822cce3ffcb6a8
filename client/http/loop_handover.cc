#include "client/http/loop_handover.h"

#include <boost/asio/post.hpp>
#include <condition_variable>
#include <mutex>

namespace ember::http {

struct LoopHandover::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool closed = false;
  bool running = false;  // a piece of work, on the loop
  uint64_t done = 0;
};

LoopHandover::LoopHandover(HttpLoop& loop) : loop_(loop), state_(std::make_shared<State>()) {}

bool LoopHandover::Run(std::function<void()> work) {
  const uint64_t number = ++posted_;
  boost::asio::post(loop_.executor(), [s = state_, number, work = std::move(work)] {
    std::unique_lock lock(s->mutex);
    if (s->closed) return;
    s->running = true;
    lock.unlock();
    work();
    lock.lock();
    s->running = false;
    s->done = number;
    s->changed.notify_all();
  });
  std::unique_lock lock(state_->mutex);
  // Work that has begun may use what the caller owns, so it is waited for in any case.
  state_->changed.wait(
      lock, [&] { return state_->done >= number || (state_->closed && !state_->running); });
  return !state_->closed;
}

bool LoopHandover::Pause(Duration duration) {
  std::unique_lock lock(state_->mutex);
  return !state_->changed.wait_for(lock, duration, [&] { return state_->closed; });
}

void LoopHandover::Close() {
  std::unique_lock lock(state_->mutex);
  state_->closed = true;
  state_->changed.notify_all();
  state_->changed.wait(lock, [&] { return !state_->running; });
}

bool LoopHandover::closed() const {
  const std::lock_guard lock(state_->mutex);
  return state_->closed;
}

}  // namespace ember::http
