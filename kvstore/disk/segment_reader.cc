#include "kvstore/disk/segment_reader.h"

#include "kvstore/disk/segment_check.h"

namespace ember::kv {
namespace {

constexpr uint64_t kPrefetchShare = 8;

}  // namespace

struct SegmentReader::Shared {
  SegmentReader* reader;
  const BlockKey& key;
  Waiting* waiting;
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> caller) {
    waiting->caller = caller;
    reader->reading_.at(key).push_back(waiting);
  }
  void await_resume() {}
};

// Begins when less than the bounds is being read, in order of asking.
struct SegmentReader::Turn {
  SegmentReader* reader;
  uint64_t bytes;
  bool await_ready() const { return reader->turns_.empty() && reader->MayRead(bytes); }
  void await_suspend(std::coroutine_handle<> caller) { reader->turns_.push_back(caller); }
  void await_resume() {
    ++reader->reads_;
    reader->read_bytes_ += bytes;
  }
};

bool SegmentReader::MayRead(uint64_t bytes) const {
  const DiskOptions& options = context_->options;
  return reads_ == 0 ||
         (reads_ < options.max_reads && read_bytes_ + bytes <= options.max_read_bytes);
}

void SegmentReader::EndTurn(uint64_t bytes) {
  --reads_;
  read_bytes_ -= bytes;
  if (turns_.empty() || !MayRead(0)) return;
  const std::coroutine_handle<> next = turns_.front();
  turns_.pop_front();
  context_->loop->Post([next] { next.resume(); });
}

io::Task<ShardEngine::Found> SegmentReader::Load(BlockKey key) {
  if (reading_.contains(key)) {
    Waiting waiting;
    co_await Shared{this, key, &waiting};
    co_return std::move(waiting.found);
  }
  reading_.emplace(key, std::vector<Waiting*>());
  ShardEngine::Found found = co_await Read(key);
  auto shared = reading_.extract(key);
  // Everybody gets a pin of his own now, before anybody goes on and makes room for something else.
  for (Waiting* waiting : shared.mapped()) {
    waiting->found.miss = found.miss;
    if (!found.pin.held()) continue;
    if (std::optional<Pin> pin = context_->engine->PinStored(key)) {
      waiting->found.pin = *std::move(pin);
    } else {
      waiting->found.miss = MissReason::kBusy;
    }
  }
  for (Waiting* waiting : shared.mapped()) {
    context_->loop->Post([caller = waiting->caller] { caller.resume(); });
  }
  co_return std::move(found);
}

void SegmentReader::Prefetch(std::span<const BlockKey> keys) {
  // So much of memory may hold what nobody has asked for yet.
  uint64_t room = std::min(context_->options.max_read_bytes,
                           context_->engine->memory().capacity() / kPrefetchShare);
  for (const BlockKey& key : keys) {
    const DiskEntry* entry = context_->engine->disk().Find(key);
    if (entry == nullptr) continue;
    const uint64_t bytes = RecordHead::BodyBytes(entry->record);
    if (bytes > room) return;
    room -= bytes;
    if (context_->closing || reading_.contains(key) || context_->engine->IsStored(key)) continue;
    if (!turns_.empty() || !MayRead(bytes)) return;
    context_->gate.Spawn(LoadInBackground(key));
  }
}

io::Task<void> SegmentReader::LoadInBackground(BlockKey key) { (void)co_await Load(key); }

io::Task<ShardEngine::Found> SegmentReader::Read(BlockKey key) {
  MissReason miss = MissReason::kNone;
  const DiskEntry* found = context_->engine->FindOnDisk(key, &miss);
  if (found == nullptr) co_return ShardEngine::Found{.miss = miss};
  const uint64_t bytes = RecordHead::BodyBytes(found->record);
  co_await Turn{this, bytes};
  // Waiting for the turn, the segment may have come into memory, or left the disk.
  const TimePoint start = context_->loop->Now();
  if (std::optional<Pin> pin = context_->engine->PinStored(key)) {
    EndTurn(bytes);
    co_return ShardEngine::Found{.miss = MissReason::kNone, .pin = *std::move(pin)};
  }
  found = context_->engine->FindOnDisk(key, &miss);
  if (found == nullptr) {
    EndTurn(bytes);
    co_return ShardEngine::Found{.miss = miss};
  }
  const DiskEntry entry = *found;
  context_->engine->disk().CountUse(entry);
  std::optional<Promotion> promotion = context_->engine->BeginPromotion(entry.record);
  if (!promotion) {
    EndTurn(bytes);
    co_return ShardEngine::Found{.miss = MissReason::kBusy};
  }
  const RegionPin region_pin(&context_->engine->disk(), entry.region);
  Region* region = regions_->Find(entry.region);
  const Status read = co_await ReadBody(region, entry.offset(), entry.record, promotion->memory());
  EndTurn(bytes);
  if (read.code() == StatusCode::kCancelled) {
    co_return ShardEngine::Found{.miss = MissReason::kBusy};
  }
  if (!read.ok()) {
    regions_->DropBad(entry, read);
    co_return ShardEngine::Found{.miss = MissReason::kCorrupt};
  }
  context_->metrics->read_seconds.Observe(context_->Seconds(start));
  context_->metrics->read_bytes.Add(bytes);
  ShardEngine::Found out;
  out.miss = promotion->Publish(&out.pin);
  if (out.pin.held()) context_->metrics->hits.Add();
  co_return out;
}

io::Task<Status> SegmentReader::ReadBody(Region* region, uint64_t offset,
                                         const SegmentRecord& segment, MutableByteSpan body) {
  Result<size_t> read = co_await region->file->ReadAt(offset + kBlockBytes, body);
  if (!read.ok()) co_return read.status();
  if (*read < body.size()) co_return CorruptError("the region file ends within the record");
  co_return SegmentCheck::Of(segment, body);
}

}  // namespace ember::kv
