#include "kvstore/disk/segment_writer.h"

#include <spdlog/spdlog.h>

namespace ember::kv {
namespace {

constexpr int kTries = 2;              // of one segment, in different regions
constexpr int kFailuresToDegrade = 3;  // regions that refuse, one after the other

}  // namespace

// ---- callers

bool SegmentWriter::Enqueue(const BlockKey& key, uint64_t bytes) {
  if (stopped_ || degraded_ != nullptr) {
    context_->metrics->skipped_degraded.Add();
    return false;
  }
  if (queue_bytes_ + bytes > context_->options.max_queue_bytes) {
    context_->metrics->skipped_queue_full.Add();
    return false;
  }
  if (writing_.contains(key) || !queued_.insert(key).second) return true;
  queue_.push_back({.key = key, .bytes = bytes});
  queue_bytes_ += bytes;
  context_->metrics->queue_bytes.Add(static_cast<double>(bytes));
  Pump();
  return true;
}

struct SegmentWriter::CallEnd {
  Call* call;
  bool await_ready() const { return call->left == 0; }
  void await_suspend(std::coroutine_handle<> caller) { call->caller = caller; }
  void await_resume() {}
};

io::Task<std::vector<StatusCode>> SegmentWriter::WriteDurably(std::vector<BlockKey> keys) {
  Call call;
  call.codes.assign(keys.size(), StatusCode::kOk);
  call.left = keys.size();
  for (size_t i = 0; i < keys.size(); ++i) Join(keys[i], {&call, i});
  Pump();
  co_await CallEnd{&call};
  co_return std::move(call.codes);
}

void SegmentWriter::Join(const BlockKey& key, Waiter waiter) {
  if (auto it = writing_.find(key); it != writing_.end()) {
    it->second.push_back(waiter);
    return;
  }
  if (const DiskEntry* entry = context_->engine->disk().Find(key)) {
    Region* region = regions_->Find(entry->region);
    if (region->unfinished.contains(entry->offset())) return WaitForSync(region, {waiter});
    return Answer({waiter}, StatusCode::kOk);
  }
  if (stopped_ || degraded_ != nullptr) {
    const bool full = degraded_ == &context_->metrics->degraded_no_space;
    return Answer({waiter}, full ? StatusCode::kNoSpace : StatusCode::kUnavailable);
  }
  std::optional<Hold> hold = context_->engine->HoldStored(key);
  if (!hold) return Answer({waiter}, StatusCode::kNotFound);
  // In front of what nobody waits for; what is queued already is then found written in its turn.
  Job job{
      .key = key, .bytes = hold->extent().size(), .hold = *std::move(hold), .waiters = {waiter}};
  queue_bytes_ += job.bytes;
  context_->metrics->queue_bytes.Add(static_cast<double>(job.bytes));
  auto place = queue_.begin();
  while (place != queue_.end() && !place->waiters.empty()) {
    if (place->key == key) {
      queue_bytes_ -= job.bytes;
      context_->metrics->queue_bytes.Add(-static_cast<double>(job.bytes));
      place->waiters.push_back(waiter);
      return;
    }
    ++place;
  }
  queue_.insert(place, std::move(job));
}

// Callers resume from the run loop, where no code of this class is under way.
void SegmentWriter::Answer(std::vector<Waiter> waiters, StatusCode code) {
  for (const Waiter& waiter : waiters) {
    waiter.call->codes[waiter.index] = code;
    if (--waiter.call->left > 0 || !waiter.call->caller) continue;
    context_->loop->Post([caller = waiter.call->caller] { caller.resume(); });
  }
}

// ---- writing

void SegmentWriter::Pump() {
  if (pumping_) return;
  pumping_ = true;
  while (StartOne()) {
  }
  pumping_ = false;
  CheckEnd();
}

// Starts the next write. False when nothing can be started now; whoever changes that pumps again.
bool SegmentWriter::StartOne() {
  const DiskOptions& options = context_->options;
  if (queue_.empty() || rotating_ || degraded_ != nullptr ||
      writing_.size() >= options.max_writes || write_bytes_ >= options.max_write_bytes) {
    return false;
  }
  Job& next = queue_.front();
  const bool waited_for = !next.waiters.empty();
  std::optional<Hold> hold;
  if (!next.hold.held() && !context_->engine->disk().Find(next.key)) {
    hold = context_->engine->HoldStored(next.key);
    if (!hold) context_->metrics->skipped_gone.Add();
    if (hold) next.hold = *std::move(hold);
  }
  const bool wanted =
      next.hold.held() && !writing_.contains(next.key) && !context_->engine->disk().Find(next.key);
  const uint64_t record_bytes = kBlockBytes + (wanted ? next.hold.extent().size() : 0);
  Region* region = regions_->open();
  if (wanted && (region == nullptr || !region->HasRoom(record_bytes))) {
    const uint64_t most = options.region_bytes - 2 * kBlockBytes - FooterBytes(1);
    if (record_bytes <= most) {
      rotating_ = true;
      context_->gate.Spawn(Rotate());
      return !rotating_;  // it may have ended at once: a file that can't be opened
    }
  }
  Job job = std::move(next);
  queue_.pop_front();
  queue_bytes_ -= job.bytes;
  context_->metrics->queue_bytes.Add(-static_cast<double>(job.bytes));
  if (!waited_for) queued_.erase(job.key);
  if (!wanted) {
    for (const Waiter& waiter : job.waiters) Join(job.key, waiter);
    return true;
  }
  if (region == nullptr || !region->HasRoom(record_bytes)) {  // larger than any region
    Answer(std::move(job.waiters), StatusCode::kNoSpace);
    return true;
  }
  regions_->KeepListBounded();
  const uint64_t offset = region->end;
  region->end += record_bytes;
  ++region->records;
  ++region->writes;
  region->unfinished.insert(offset);
  write_bytes_ += record_bytes;
  writing_.emplace(job.key, std::vector<Waiter>());
  context_->gate.Spawn(Write(std::move(job), region, offset));
  return true;
}

io::Task<void> SegmentWriter::Write(Job job, Region* region, uint64_t offset) {
  const uint64_t record_bytes = kBlockBytes + job.hold.extent().size();
  Status written;
  {
    const RegionPin pin(&context_->engine->disk(), region->id);
    const TimePoint start = context_->loop->Now();
    written = co_await WriteRecord(job, region, offset);
    context_->metrics->write_seconds.Observe(context_->Seconds(start));
    if (written.ok()) context_->metrics->written_bytes.Add(record_bytes);
  }
  write_bytes_ -= record_bytes;
  --region->writes;
  auto joined = writing_.extract(job.key);
  job.waiters.insert(job.waiters.end(), joined.mapped().begin(), joined.mapped().end());
  if (written.ok()) {
    failures_ = 0;
    Written(std::move(job), region, offset);
  } else {
    region->unfinished.erase(offset);
    context_->metrics->write_errors.Add();
    Refused(std::move(job), region, written);
  }
  if (region->state == Region::State::kSealing && region->writes == 0) {
    co_await regions_->Seal(region);
  }
  Pump();
}

io::Task<Status> SegmentWriter::WriteRecord(const Job& job, Region* region, uint64_t offset) {
  AlignedBuffer head(kBlockBytes);
  if (!heads_.empty()) {
    head = std::move(heads_.back());
    heads_.pop_back();
  }
  Encode(RecordHead{.use = {context_->options.shard, region->id, region->generation},
                    .offset = offset,
                    .segment = job.hold.record(),
                    .checksum = job.hold.checksum()},
         head.span());
  const std::array<ByteSpan, 2> parts = {head.span(), job.hold.extent()};
  const Status written = co_await region->file->WriteAt(offset, parts);
  heads_.push_back(std::move(head));
  co_return written;
}

void SegmentWriter::Written(Job job, Region* region, uint64_t offset) {
  const SegmentRecord record = job.hold.record();
  // Dropped from memory while it was written (purged, expired, found corrupt): it must not come
  // back from here. Its bytes stay unlisted until the region goes.
  if (job.hold.dropped() || !context_->engine->AddToDisk(record, region->id, offset)) {
    region->unfinished.erase(offset);
    return Answer(std::move(job.waiters), StatusCode::kNotFound);
  }
  context_->metrics->written_segments.Add();
  region->unsynced.push_back({offset, record});
  if (job.waiters.empty()) return ArmSyncTimer();
  WaitForSync(region, std::move(job.waiters));
}

void SegmentWriter::Refused(Job job, Region* region, const Status& why) {
  if (why.code() == StatusCode::kCancelled) {
    return Answer(std::move(job.waiters), StatusCode::kUnavailable);
  }
  // kBusy is this process being short of something for a moment, not the region's fault.
  if (why.code() != StatusCode::kNoSpace && why.code() != StatusCode::kBusy) {
    if (region->state == Region::State::kOpen) ++failures_;
    regions_->WriteOff(region, why);
  }
  if (why.code() == StatusCode::kNoSpace || failures_ >= kFailuresToDegrade) Degrade(why);
  if (degraded_ == nullptr && ++job.tries < kTries) {
    queue_bytes_ += job.bytes;
    context_->metrics->queue_bytes.Add(static_cast<double>(job.bytes));
    queue_.push_front(std::move(job));
    return;
  }
  Answer(std::move(job.waiters),
         why.code() == StatusCode::kNoSpace ? StatusCode::kNoSpace : StatusCode::kUnavailable);
}

// ---- regions

io::Task<void> SegmentWriter::Rotate() {
  Retire(regions_->open());
  const Status opened = co_await regions_->OpenNext();
  rotating_ = false;
  if (opened.ok()) {
    Recovered();
  } else if (opened.code() == StatusCode::kNoSpace || opened.code() == StatusCode::kCancelled ||
             ++failures_ >= kFailuresToDegrade) {
    Degrade(opened);
  }
  Pump();
}

// Nothing more is appended to it; its footer follows when the last write has ended.
void SegmentWriter::Retire(Region* region) {
  if (region == nullptr) return;
  regions_->StopAppending();
  if (region->writes == 0) context_->gate.Spawn(regions_->Seal(region));
}

// ---- durability

void SegmentWriter::WaitForSync(Region* region, std::vector<Waiter> waiters) {
  Syncing& syncing = syncing_[region->id];
  syncing.waiters.insert(syncing.waiters.end(), waiters.begin(), waiters.end());
  if (!std::exchange(syncing.running, true)) context_->gate.Spawn(SyncNow(region));
}

// One sync after the other while somebody waits; those who come during one share the next.
io::Task<void> SegmentWriter::SyncNow(Region* region) {
  const uint32_t id = region->id;
  do {
    std::vector<Waiter> waiters = std::exchange(syncing_[id].waiters, {});
    const Status synced = co_await regions_->Sync(region);
    Answer(std::move(waiters), synced.ok() ? StatusCode::kOk : StatusCode::kUnavailable);
  } while (!syncing_[id].waiters.empty());
  syncing_.erase(id);
  CheckEnd();
}

void SegmentWriter::ArmSyncTimer() {
  if (sync_timer_ != nullptr || stopped_) return;
  sync_timer_ =
      context_->loop->StartTimer(context_->loop->Now() + context_->options.sync_interval, [this] {
        sync_timer_.reset();
        for (Region* region : regions_->Unsynced()) WaitForSync(region, {});
      });
}

// ---- a disk that takes nothing

void SegmentWriter::Degrade(const Status& why) {
  const bool full = why.code() == StatusCode::kNoSpace;
  if (degraded_ == nullptr) {
    spdlog::warn("disk tier degraded, memory goes on shard={} reason=\"{}\"",
                 context_->options.shard, why.ToString());
    degraded_ =
        full ? &context_->metrics->degraded_no_space : &context_->metrics->degraded_io_error;
    degraded_->Add(1);
  }
  DropQueue(full ? StatusCode::kNoSpace : StatusCode::kUnavailable);
  if (stopped_) return;
  retry_timer_ = context_->loop->StartTimer(
      context_->loop->Now() + context_->options.retry_interval, [this] { Retry(); });
}

void SegmentWriter::DropQueue(StatusCode code) {
  for (Job& job : queue_) {
    context_->metrics->skipped_degraded.Add();
    Answer(std::move(job.waiters), code);
  }
  queue_.clear();
  queued_.clear();
  context_->metrics->queue_bytes.Add(-static_cast<double>(std::exchange(queue_bytes_, 0)));
  CheckEnd();
}

void SegmentWriter::Retry() {
  if (rotating_ || stopped_) return;
  rotating_ = true;
  context_->gate.Spawn(Rotate());
}

void SegmentWriter::Recovered() {
  if (degraded_ == nullptr) return;
  failures_ = 0;
  std::exchange(degraded_, nullptr)->Add(-1);
  retry_timer_.reset();
  spdlog::info("disk tier takes segments again shard={}", context_->options.shard);
  if (context_->options.policy != WritePolicy::kThrough) return;
  // What was left out meanwhile.
  context_->engine->VisitColdest([this](const BlockKey& key, uint64_t bytes) {
    return context_->engine->disk().Find(key) != nullptr || Enqueue(key, bytes);
  });
}

// ---- the end

struct SegmentWriter::QueueEnd {
  SegmentWriter* writer;
  bool await_ready() const { return writer->idle(); }
  void await_suspend(std::coroutine_handle<> caller) { writer->stopper_ = caller; }
  void await_resume() {}
};

void SegmentWriter::CheckEnd() {
  if (stopper_ && idle()) {
    context_->loop->Post([stopper = std::exchange(stopper_, nullptr)] { stopper.resume(); });
  }
}

io::Task<void> SegmentWriter::Stop(TimePoint deadline) {
  stopped_ = true;
  const auto timer = context_->loop->StartTimer(deadline, [this] {
    if (queue_.empty()) return;
    spdlog::warn("no time to write all to disk shard={} segments_left={}", context_->options.shard,
                 queue_.size());
    DropQueue(StatusCode::kUnavailable);
  });
  Pump();
  co_await QueueEnd{this};
  sync_timer_.reset();
  for (Region* region : regions_->Unsynced()) WaitForSync(region, {});
  co_await QueueEnd{this};
  retry_timer_.reset();
  if (degraded_ != nullptr) std::exchange(degraded_, nullptr)->Add(-1);
}

}  // namespace ember::kv
