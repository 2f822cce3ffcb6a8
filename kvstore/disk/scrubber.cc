#include "kvstore/disk/scrubber.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "kvstore/disk/segment_check.h"

namespace ember::kv {
namespace {

constexpr uint64_t kPiece = 512 << 10;
constexpr size_t kKeysAtOnce = 256;

}  // namespace

struct Scrubber::Paused {
  Scrubber* scrubber;
  Duration duration;
  bool await_ready() const { return scrubber->stopped_; }
  void await_suspend(std::coroutine_handle<> caller) {
    io::Loop* loop = scrubber->context_->loop;
    scrubber->paused_ = caller;
    scrubber->timer_ = loop->StartTimer(
        loop->Now() + duration, [this] { std::exchange(scrubber->paused_, nullptr).resume(); });
  }
  void await_resume() {}
};

void Scrubber::Start() {
  if (context_->options.scrub_bytes_per_second > 0) context_->gate.Spawn(Run());
}

void Scrubber::Stop() {
  stopped_ = true;
  timer_.reset();
  if (!paused_) return;
  context_->loop->Post([caller = std::exchange(paused_, nullptr)] { caller.resume(); });
}

io::Task<void> Scrubber::Pause(Duration duration) { co_await Paused{this, duration}; }

io::Task<void> Scrubber::Pace(uint64_t bytes) {
  context_->metrics->scrubbed_bytes.Add(bytes);
  const double seconds =
      static_cast<double>(bytes) / static_cast<double>(context_->options.scrub_bytes_per_second);
  co_await Pause(Duration(static_cast<int64_t>(seconds * 1e9)));
}

io::Task<void> Scrubber::Run() {
  while (!stopped_) {
    const TimePoint start = context_->loop->Now();
    co_await PassDisk();
    co_await PassMemory();
    const TimePoint next = start + context_->options.scrub_interval;
    co_await Pause(std::max<Duration>(next - context_->loop->Now(), milliseconds(1)));
  }
}

io::Task<void> Scrubber::PassDisk() {
  regions_->DropVanished();
  if (context_->engine->disk().size() == 0) co_return;
  AlignedBuffer buffer(kPiece);
  for (size_t slot = 0; !stopped_ && slot < context_->engine->disk().slots(); ++slot) {
    if (context_->engine->disk().At(slot) != nullptr) co_await CheckOnDisk(slot, &buffer);
  }
}

io::Task<void> Scrubber::CheckOnDisk(size_t slot, AlignedBuffer* buffer) {
  MissReason miss = MissReason::kNone;
  // What was purged or has expired leaves the index here.
  const DiskEntry* found =
      context_->engine->FindOnDisk(context_->engine->disk().At(slot)->record.key, &miss);
  if (found == nullptr) co_return;
  const DiskEntry entry = *found;
  const RegionPin pin(&context_->engine->disk(), entry.region);
  io::File* file = regions_->Find(entry.region)->file.get();
  SegmentCheck check(entry.record);
  const uint64_t begin = entry.offset() + kBlockBytes;
  const uint64_t end = begin + RecordHead::BodyBytes(entry.record);
  for (uint64_t at = begin; at < end && !stopped_; at += kPiece) {
    const MutableByteSpan piece = buffer->span().first(std::min(kPiece, end - at));
    Result<size_t> read = co_await file->ReadAt(at, piece);
    if (!read.ok()) {
      if (read.status().code() != StatusCode::kCancelled) regions_->DropBad(entry, read.status());
      co_return;
    }
    check.Update(piece.first(*read));
    co_await Pace(*read);
  }
  if (stopped_) co_return;
  if (const Status status = check.Finish(); !status.ok()) regions_->DropBad(entry, status);
}

io::Task<void> Scrubber::PassMemory() {
  uint64_t cursor = 0;
  do {
    std::vector<BlockKey> keys;
    cursor = context_->engine->VisitStored(
        cursor, kKeysAtOnce,
        [&](const BlockKey& key, const GenerationId&) { keys.push_back(key); });
    for (const BlockKey& key : keys) {
      if (stopped_) co_return;
      co_await CheckInMemory(key);
    }
  } while (cursor != 0);
}

io::Task<void> Scrubber::CheckInMemory(BlockKey key) {
  std::optional<Hold> hold = context_->engine->HoldStored(key);
  if (!hold) co_return;
  ChecksumStream checksum;
  for (ByteSpan left = hold->payload(); !left.empty() && !stopped_;) {
    const ByteSpan piece = left.first(std::min<size_t>(kPiece, left.size()));
    checksum.Update(piece);
    left = left.subspan(piece.size());
    co_await Pace(piece.size());
  }
  if (stopped_ || hold->dropped() || checksum.Digest() == hold->checksum()) co_return;
  if (!context_->engine->ReportCorrupt(key, hold->record().generation)) co_return;
  context_->metrics->memory_corruptions.Add();
  spdlog::error("segment in memory dropped shard={} key={} reason=\"payload checksum differs\"",
                context_->options.shard, KeyPrefix(key));
}

}  // namespace ember::kv
