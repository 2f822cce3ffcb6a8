#include "client/io/blocking_pool.h"

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "client/io/loop_base.h"

namespace ember::io {
namespace {

// Enough to keep a disk's queue busy with requests of a MiB.
constexpr size_t kMaxThreads = 8;

}  // namespace

BlockingPool::~BlockingPool() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
    queue_.clear();
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BlockingPool::Submit(Job* job) {
  ++unfinished_;
  loop_->AddSuspended();
  bool needs_thread = false;
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(job);
    needs_thread = idle_ < queue_.size();
  }
  if (needs_thread && threads_.size() < kMaxThreads && !StartThread() && threads_.empty()) {
    {
      std::lock_guard lock(mutex_);
      queue_.pop_back();
    }
    job->result = -ENOMEM;
    Finish(job);
    return;
  }
  wake_.notify_one();
}

bool BlockingPool::StartThread() {
  // Signals are for the program's own threads.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    threads_.emplace_back([this] { Work(); });
  } catch (const std::system_error&) {
    started = false;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

void BlockingPool::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    wake_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    --idle_;
    if (queue_.empty()) return;
    Job* const job = queue_.front();
    queue_.pop_front();
    lock.unlock();
    job->Execute();
    loop_->Post([this, job] { Finish(job); });
    lock.lock();
  }
}

void BlockingPool::Finish(Job* job) {
  --unfinished_;
  loop_->RemoveSuspended();
  loop_->Enqueue(job->waiter);
}

bool BlockingPool::CancelQueued() {
  std::deque<Job*> cancelled;
  {
    std::lock_guard lock(mutex_);
    cancelled.swap(queue_);
  }
  for (Job* job : cancelled) {
    job->result = -ECANCELED;
    Finish(job);
  }
  return unfinished_ > 0;
}

}  // namespace ember::io
