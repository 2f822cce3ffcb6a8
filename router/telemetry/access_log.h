// AccessLog: one JSON line for each finished request, without prompts, replies or credentials,
// written by a thread of its own.
//
// Concurrency: Add and Reopen from any thread. A file that cannot be written loses lines, which are
// counted, and of which the router's own log tells each minute; it never holds a request up.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "proto/base/status.h"
#include "router/telemetry/record_worker.h"

namespace ember::router {

// One line with its line feed.
std::string AccessLogLine(const RequestRecord& record);

class AccessLog {
 public:
  // `path` "-" is standard output. kUnavailable: the file can't be opened for appending.
  static Result<std::unique_ptr<AccessLog>> Open(std::string path, MetricsRegistry& registry,
                                                 RecordWorkerOptions options = {});
  // Writes what is queued, for a second at most.
  ~AccessLog();

  void Add(FinishedRequest record) { worker_->Add(std::move(record)); }
  // The file of that name is opened anew before the next line: the old one was renamed.
  void Reopen() { reopen_.store(true); }

 private:
  AccessLog(std::string path, int fd, MetricsRegistry& registry, RecordWorkerOptions options);
  void Write(const std::vector<FinishedRequest>& batch);
  bool WriteAll(std::string_view text);
  bool WaitUntilWritable();
  // Of lines lost since it told last, unless that was a moment ago and there is more to come.
  void TellOfLosses();

  const std::string path_;
  int fd_;
  Counter& lost_;
  uint64_t lost_told_ = 0;
  std::optional<TimePoint> told_at_;
  std::string why_lost_;
  std::atomic<bool> reopen_{false};
  std::atomic<bool> closing_{false};
  bool stuck_ = false;  // at the end nobody read our pipe: no line is tried any more
  std::unique_ptr<RecordWorker> worker_;
};

}  // namespace ember::router
