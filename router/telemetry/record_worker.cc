#include "router/telemetry/record_worker.h"

#include <algorithm>

namespace ember::router {

RecordWorker::RecordWorker(RecordWorkerOptions options, Counter& lost, Work work)
    : options_(options), lost_(lost), work_(std::move(work)), thread_([this] { Run(); }) {}

RecordWorker::~RecordWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void RecordWorker::Add(FinishedRequest record) {
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= options_.max_queued) {
      lost_.Add();
      return;
    }
    queue_.push_back(std::move(record));
    if (queue_.size() > 1) return;  // it is awake, or about to be
  }
  changed_.notify_one();
}

void RecordWorker::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    if (queue_.size() < options_.max_batch) {
      changed_.wait_for(lock, options_.pause, [this] { return stopping_; });
    }
    const auto end =
        queue_.begin() + static_cast<std::ptrdiff_t>(std::min(queue_.size(), options_.max_batch));
    const std::vector<FinishedRequest> batch(std::make_move_iterator(queue_.begin()),
                                             std::make_move_iterator(end));
    queue_.erase(queue_.begin(), end);
    lock.unlock();
    work_(batch);
    lock.lock();
  }
}

}  // namespace ember::router
