#include "client/agent/segment_pusher.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace ember::agent {
namespace {
constexpr size_t kBatchBytes = 8u << 20;  // between two looks for loads
constexpr Duration kMatchTimeout = seconds(2);
constexpr Duration kPutTimeout = seconds(5);
constexpr Duration kMaxWaitForLoads = seconds(2);
}  // namespace

SegmentPusher::SegmentPusher(StoreClient& store, LoadPriority& priority, AgentMetrics& metrics)
    : store_(store), priority_(priority), metrics_(metrics), thread_([this] { Run(); }) {}

SegmentPusher::~SegmentPusher() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    queue_.clear();
  }
  wake_.notify_all();
  thread_.join();
}

void SegmentPusher::Push(PushJob job) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    queued_bytes_ += job.saved->bytes();
    queue_.push_back(std::move(job));
    while (queued_bytes_ > kMaxQueuedBytes && queue_.size() > 1) {
      queued_bytes_ -= queue_.front().saved->bytes();
      queue_.pop_front();
      metrics_.Failure(CacheFailure::kPushDropped).Add();
    }
  }
  wake_.notify_one();
}

size_t SegmentPusher::pending() const {
  std::lock_guard lock(mutex_);
  return queue_.size() + (working_ ? 1 : 0);
}

void SegmentPusher::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    const PushJob job = std::move(queue_.front());
    queue_.pop_front();
    queued_bytes_ -= job.saved->bytes();
    working_ = true;
    lock.unlock();
    const PushResult result = Do(job);
    if (job.on_done) job.on_done(result);
    lock.lock();
    working_ = false;
  }
}

PushResult SegmentPusher::Do(const PushJob& job) {
  PushResult out;
  const TimePoint start = std::chrono::steady_clock::now();
  priority_.WaitUntilIdle(kMaxWaitForLoads);
  const MatchResult match = store_.Match(job.refs, kMatchTimeout);
  std::vector<size_t> missing;
  for (size_t i = 0; i < job.refs.size() && i < match.segments.size(); ++i) {
    if (match.segments[i].miss != MissReason::kNone) missing.push_back(i);
  }
  const size_t payload = job.identity->shape.PayloadBytes(kTokensPerBlock);
  const size_t batch = std::max<size_t>(1, kBatchBytes / payload);
  for (size_t at = 0; at < missing.size(); at += batch) {
    priority_.WaitUntilIdle(kMaxWaitForLoads);
    const auto now = std::span(missing).subspan(at, std::min(batch, missing.size() - at));
    if (!PutBatch(job, now, &out)) break;
  }
  metrics_.pushed_segments.Add(out.segments);
  metrics_.pushed_bytes.Add(out.bytes);
  out.milliseconds = ToMilliseconds(std::chrono::steady_clock::now() - start);
  return out;
}

bool SegmentPusher::PutBatch(const PushJob& job, std::span<const size_t> missing, PushResult* out) {
  const SlotFile& file = job.saved->file();
  std::vector<Bytes> payloads;
  std::vector<PutRequest> requests;
  payloads.reserve(missing.size());
  for (const size_t i : missing) {
    const size_t begin = i * kTokensPerBlock;
    payloads.push_back(file.CutPayload(begin, begin + kTokensPerBlock));
    requests.push_back({job.refs[i], file.tokens().subspan(begin, kTokensPerBlock), payloads.back(),
                        job.identity->shape.LayerOffsets(kTokensPerBlock)});
  }
  const auto outcomes = store_.Put(requests, job.identity->layout, kPutTimeout);
  bool stored = false;
  for (size_t i = 0; i < outcomes.size() && i < payloads.size(); ++i) {
    stored = stored || outcomes[i].copies > 0;
    if (outcomes[i].copies == 0) {
      metrics_.Failure(CacheFailure::kPushFailed).Add();
      spdlog::debug("push: segment {}: {}", missing[i], outcomes[i].status.ToString());
    } else if (!outcomes[i].was_there) {
      ++out->segments;
      out->bytes += payloads[i].size();
    }
  }
  return stored;
}

}  // namespace ember::agent
