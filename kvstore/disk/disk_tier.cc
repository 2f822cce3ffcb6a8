#include "kvstore/disk/disk_tier.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "kvstore/disk/data_directory.h"

namespace ember::kv {
namespace {

// Demotion: memory of which so much is free or on disk, too, can be handed out without loss.
constexpr double kCleanShare = 1.0 / 8;
// The list of what is on disk takes at most this share of what segments take, on top of it.
constexpr uint64_t kListShare = 4;
constexpr uint64_t kBytesPerListed = 104;
constexpr size_t kLeastListed = 1 << 16;
constexpr Duration kCleanInterval = milliseconds(10);
constexpr Duration kObserveInterval = milliseconds(500);
// The journal is written anew at a start when it has more records than this beyond what holds.
constexpr size_t kJournalSlack = 256;

}  // namespace

DiskTier::DiskTier(io::Loop* loop, ShardEngine* engine, Catalog* catalog, RandomSource* random,
                   const WallClock* wall_clock, DiskMetrics* metrics, DiskOptions options)
    : context_{.loop = loop,
               .engine = engine,
               .random = random,
               .metrics = metrics,
               .options = options,
               .catalog = CatalogWriter(loop, catalog, options.shard, metrics)},
      wall_clock_(wall_clock),
      regions_(&context_),
      writer_(&context_, &regions_),
      reader_(&context_, &regions_),
      scrubber_(&context_, &regions_) {
  if (context_.options.max_segments == 0) {
    context_.options.max_segments =
        std::max<size_t>(kLeastListed, engine->memory().capacity() / kListShare / kBytesPerListed);
  }
}

DiskTier::~DiskTier() { context_.engine->SetLowerTier(nullptr); }

io::Task<Result<std::unique_ptr<DiskTier>>> DiskTier::Open(io::Loop* loop, ShardEngine* engine,
                                                           Catalog* catalog, RandomSource* random,
                                                           const WallClock* wall_clock,
                                                           DiskMetrics* metrics,
                                                           DiskOptions options) {
  CatalogContents contents = catalog->TakeContents(options.shard);
  std::unique_ptr<DiskTier> tier(
      new DiskTier(loop, engine, catalog, random, wall_clock, metrics, std::move(options)));
  const Status started = co_await tier->Start(std::move(contents));
  if (!started.ok()) co_return started;
  co_return tier;
}

io::Task<Status> DiskTier::Start(CatalogContents contents) {
  const TimePoint start = context_.loop->Now();
  const bool used_before = !contents.regions.empty();
  const std::string folder = ShardFolder(context_.options.directory, context_.options.shard);
  Result<std::vector<io::FolderEntry>> entries = context_.files().List(folder);
  if (!entries.ok()) co_return entries.status();
  const bool has_regions = std::ranges::any_of(
      *entries, [](const io::FolderEntry& e) { return RegionOfName(e.name).has_value(); });
  auto journal = co_await PurgeJournal::Open(
      &context_.files(), PurgesPath(context_.options.directory, context_.options.shard),
      used_before || has_regions);
  if (!journal.ok()) co_return journal.status();
  purges_ = *std::move(journal);
  for (const PurgeRecord& record : purges_->found()) {
    context_.engine->Purge(record.scope, record.epoch);
  }
  EMBER_CO_RETURN_IF_ERROR(co_await regions_.Load(std::move(contents)));
  // A purge that the process died in may have left records of its epoch, but no trace of itself.
  context_.engine->HearOfEpoch(regions_.highest_epoch());
  EMBER_CO_RETURN_IF_ERROR(co_await RestorePurges());
  spdlog::info("disk tier ready shard={} segments={} live_mib={} seconds={:.3f}",
               context_.options.shard, context_.engine->disk().size(),
               context_.engine->disk().live_bytes() >> 20, context_.Seconds(start));
  context_.engine->SetLowerTier(this);
  Observe();
  scrubber_.Start();
  co_return OkStatus();
}

// A damaged journal may have lost a purge, so nothing that was stored before may come back. It
// costs the disk's contents; the other way it would cost the promise.
io::Task<Status> DiskTier::RestorePurges() {
  if (purges_->damaged()) {
    const uint64_t epoch =
        std::max(regions_.highest_epoch(), context_.engine->tombstones().epoch()) + 1;
    spdlog::error("purges journal is damaged or missing: everything on disk is dropped shard={}",
                  context_.options.shard);
    context_.engine->Purge(PurgeScope::Everything(), epoch);
    co_return co_await CompactPurges();
  }
  const size_t needed = context_.engine->tombstones().all().size();
  if (purges_->found().size() > needed + kJournalSlack) co_return co_await CompactPurges();
  co_return OkStatus();
}

io::Task<Status> DiskTier::CompactPurges() {
  std::vector<PurgeRecord> records;
  for (const auto& [scope, epoch] : context_.engine->tombstones().all()) {
    records.push_back({scope, epoch, wall_clock_->NowMs()});
  }
  return purges_->Rewrite(std::move(records));
}

io::Task<ShardEngine::Found> DiskTier::Load(BlockKey key) {
  ShardEngine::Found found = co_await reader_.Load(key);
  context_.engine->CountLookup(found.miss);
  co_return found;
}

io::Task<Status> DiskTier::RecordPurge(PurgeScope scope, uint64_t epoch) {
  return purges_->Append({scope, epoch, wall_clock_->NowMs()});
}

// ---- what is written when

bool DiskTier::Offer(const BlockKey& key, uint64_t bytes, bool used_again) {
  switch (context_.options.policy) {
    case WritePolicy::kThrough:
      return writer_.Enqueue(key, bytes);
    case WritePolicy::kSecondUse:
      return used_again && writer_.Enqueue(key, bytes);
    case WritePolicy::kDemotion:
      if (clean_timer_ == nullptr) {
        clean_timer_ = context_.loop->StartTimer(context_.loop->Now() + kCleanInterval, [this] {
          clean_timer_.reset();
          CleanMemory();
        });
      }
      // Which go first is looked up when room gets short; nothing more to hear of this one.
      return true;
  }
  return true;
}

// Queues the segments that would leave memory first, until enough of it is free or on disk.
void DiskTier::CleanMemory() {
  const SegmentMemory& memory = context_.engine->memory();
  const auto margin = static_cast<uint64_t>(kCleanShare * static_cast<double>(memory.capacity()));
  uint64_t clean = memory.capacity() - memory.used();
  if (clean >= margin) return;
  context_.engine->VisitColdest([&](const BlockKey& key, uint64_t bytes) {
    clean += bytes;
    if (context_.engine->disk().Find(key) == nullptr && !writer_.Enqueue(key, bytes)) return false;
    return clean < margin;
  });
}

void DiskTier::Observe() {
  const auto live = static_cast<double>(context_.engine->disk().live_bytes());
  const auto segments = static_cast<double>(context_.engine->disk().size());
  context_.metrics->live_bytes.Add(live - std::exchange(observed_live_, live));
  context_.metrics->segments.Add(segments - std::exchange(observed_segments_, segments));
  observe_timer_ =
      context_.loop->StartTimer(context_.loop->Now() + kObserveInterval, [this] { Observe(); });
}

// ---- the end

// What would stay in memory longest is worth most, so it is written first; no more than the disk
// can hold, or the end of the queue would push out its beginning.
void DiskTier::QueueWhatIsLeft() {
  DiskOptions& options = context_.options;
  options.max_queue_bytes = options.capacity_bytes - options.region_bytes;
  std::vector<std::pair<BlockKey, uint64_t>> left;
  context_.engine->VisitColdest([&](const BlockKey& key, uint64_t bytes) {
    if (context_.engine->disk().Find(key) == nullptr) left.emplace_back(key, bytes);
    return true;
  });
  for (auto it = left.rbegin(); it != left.rend(); ++it) {
    if (!writer_.Enqueue(it->first, it->second)) return;
  }
}

io::Task<void> DiskTier::Close(Duration grace) {
  const TimePoint deadline = context_.loop->Now() + grace;
  context_.closing = true;
  context_.engine->SetLowerTier(nullptr);
  clean_timer_.reset();
  observe_timer_.reset();
  scrubber_.Stop();
  QueueWhatIsLeft();
  co_await writer_.Stop(deadline);
  co_await context_.gate.Close();
  co_await context_.catalog.Close();
  context_.metrics->live_bytes.Add(-std::exchange(observed_live_, 0));
  context_.metrics->segments.Add(-std::exchange(observed_segments_, 0));
}

}  // namespace ember::kv
