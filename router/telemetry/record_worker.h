// RecordWorker: a thread that does something slow with finished requests (a file, a collector), so
// that the router's loop need not. Its queue is bounded: what does not fit is counted as lost, and
// requests never wait.
//
// Concurrency: Add from any thread; `work` runs on the worker's own. The destructor hands over what
// is queued and waits for it: `work` must end by itself.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "proto/base/metrics.h"
#include "proto/base/time.h"
#include "router/telemetry/request_record.h"

namespace ember::router {

struct RecordWorkerOptions {
  size_t max_queued = 8192;
  size_t max_batch = 512;
  // Waited for after the first record, so that a batch gathers and a busy loop wakes nobody.
  Duration pause = milliseconds(100);
};

class RecordWorker {
 public:
  using Work = std::function<void(const std::vector<FinishedRequest>& batch)>;

  // `lost` must outlive it.
  RecordWorker(RecordWorkerOptions options, Counter& lost, Work work);
  ~RecordWorker();

  void Add(FinishedRequest record);

 private:
  void Run();

  const RecordWorkerOptions options_;
  Counter& lost_;
  const Work work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<FinishedRequest> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ember::router
