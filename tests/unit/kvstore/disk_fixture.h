// DiskTest: a shard's engine with its disk tier on a loop of either back end, in a folder of the
// test's own. Start and Stop (or Kill) it again and again; the folder and the catalog stay.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "client/io/sync.h"
#include "kvstore/disk/data_directory.h"
#include "kvstore/disk/disk_tier.h"
#include "kvstore/engine/lru_policy.h"
#include "kvstore/memory/arena.h"
#include "tests/unit/kvstore/memory_catalog.h"
#include "tests/unit/kvstore/test_segments.h"
#include "tests/unit/support/temp_folder.h"

namespace ember::kv::testing {

// An empty folder below the build's temporary one, removed at the end.
class TestFolder {
 public:
  TestFolder() : path_(MakeTempFolder()) {}
  ~TestFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class DiskTest : public ::testing::TestWithParam<io::Backend> {
 protected:
  void SetUp() override {
    if (GetParam() == io::Backend::kUring && !io::MakeLoop(io::Backend::kUring).ok()) {
      GTEST_SKIP() << "io_uring is refused here";
    }
    options_.directory = folder_.path() + "/data";
    options_.identity = {.cluster = "c", .node = "s1", .shards = 1};
    options_.capacity_bytes = 16 << 20;
    options_.region_bytes = 2 << 20;
    options_.sync_interval = milliseconds(20);
    options_.retry_interval = milliseconds(20);
    options_.scrub_bytes_per_second = 0;
    options_.min_free_bytes = 0;
  }
  void TearDown() override {
    if (tier_ != nullptr) Stop();
  }

  // OK when it came up.
  Status Start() {
    arena_ = *Arena::Make(memory_bytes_, false);
    thread_ = *io::LoopThread::Make(GetParam());
    engine_ =
        std::make_unique<ShardEngine>(engine_options_, arena_.get(), std::make_unique<LruPolicy>(),
                                      &thread_->loop(), &wall_clock_, &random_, &engine_metrics_);
    const Status opened = OnLoop([this] { return Open(); });
    if (!opened.ok()) Shut();
    return opened;
  }
  // As after SIGTERM.
  void Stop(Duration grace = seconds(10)) {
    (void)OnLoop([this, grace]() -> io::Task<Status> { return CloseTier(grace); });
    Shut();
  }
  // As after SIGKILL, except that what the kernel has begun is waited for: nothing is flushed,
  // nothing more gets into the catalog.
  void Kill() {
    Do([this] { catalog_.frozen = true; });
    Stop(Duration::zero());
    catalog_.frozen = false;
  }

  Status OnLoop(std::function<io::Task<Status>()> make) {
    return io::RunOnLoop<Status>(thread_->loop(), std::move(make));
  }
  // Runs `fn` on the loop's thread.
  void Do(std::function<void()> fn) {
    (void)OnLoop([fn = std::move(fn)]() -> io::Task<Status> {
      fn();
      co_return OkStatus();
    });
  }

  // Into memory; by policy also to disk.
  StatusCode Put(const TestSegment& segment) {
    StatusCode code = StatusCode::kOk;
    Do([&] { code = PutHere(segment); });
    return code;
  }
  StatusCode PutHere(const TestSegment& segment) {
    const ShardEngine::Reservation r = engine_->Reserve(1, segment.encoded_header);
    if (r.code != StatusCode::kOk || r.have) return r.code;
    {
      Result<WriteGrant> grant = engine_->BeginWrite(1, r.token, 0, segment.payload.size());
      if (!grant.ok()) return grant.status().code();
      std::memcpy(grant->remaining().data(), segment.payload.data(), segment.payload.size());
      grant->Advance(segment.payload.size());
    }
    return engine_->Commit(1, r.token);
  }
  StatusCode Put(uint64_t number, size_t length) { return Put(MakeSegment(number, length)); }
  std::vector<StatusCode> Persist(std::vector<uint64_t> numbers) {
    std::vector<StatusCode> codes;
    (void)OnLoop([&]() -> io::Task<Status> {
      std::vector<BlockKey> keys;
      for (uint64_t number : numbers) keys.push_back(KeyOf(number));
      codes = co_await tier_->Persist(std::move(keys));
      co_return OkStatus();
    });
    return codes;
  }
  bool PutDurably(uint64_t number, size_t length) {
    return Put(number, length) == StatusCode::kOk &&
           Persist({number}) == std::vector{StatusCode::kOk};
  }
  // The payload, from whatever tier; empty on a miss, and `miss_` says why.
  Bytes Get(uint64_t number) {
    Bytes out;
    (void)OnLoop([&]() -> io::Task<Status> {
      ShardEngine::Found found = engine_->Get(KeyOf(number));
      if (found.on_disk) found = co_await tier_->Load(KeyOf(number));
      miss_ = found.miss;
      if (found.pin.held()) out.assign(found.pin.payload().begin(), found.pin.payload().end());
      co_return OkStatus();
    });
    return out;
  }
  bool Right(uint64_t number, size_t length) {
    const Bytes payload = Get(number);
    return payload.size() == length && IsPayloadOf(number, payload);
  }
  bool OnDisk(uint64_t number) {
    bool there = false;
    Do([&] { there = engine_->disk().Find(KeyOf(number)) != nullptr; });
    return there;
  }
  bool InMemory(uint64_t number) {
    bool there = false;
    Do([&] { there = engine_->IsStored(KeyOf(number)); });
    return there;
  }
  size_t DiskSegments() {
    size_t size = 0;
    Do([&] { size = engine_->disk().size(); });
    return size;
  }
  DiskEntry Where(uint64_t number) {
    DiskEntry entry;
    Do([&] { entry = *engine_->disk().Find(KeyOf(number)); });
    return entry;
  }
  std::string RegionFile(uint32_t region) { return RegionPath(options_.directory, 0, region); }
  // Behind the tier's back.
  static void Overwrite(const std::string& path, uint64_t offset, std::string_view bytes) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    EMBER_CHECK(file.good(), "the test's file can be written");
  }
  void LoseCatalog() { catalog_.contents.clear(); }

  TestFolder folder_;
  DiskOptions options_;
  EngineOptions engine_options_;
  uint64_t memory_bytes_ = 16 << 20;
  MissReason miss_ = MissReason::kNone;
  MemoryCatalog catalog_;
  MetricsRegistry registry_;
  EngineMetrics engine_metrics_{&registry_};
  DiskMetrics metrics_{&registry_};
  SystemRandom random_;
  SystemWallClock wall_clock_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<ShardEngine> engine_;
  std::unique_ptr<DiskTier> tier_;
  std::unique_ptr<io::LoopThread> thread_;

 private:
  io::Task<Status> Open() {
    EMBER_CO_RETURN_IF_ERROR(
        co_await PrepareDirectory(&thread_->loop().files(), options_.directory, options_.identity));
    auto tier = co_await DiskTier::Open(&thread_->loop(), engine_.get(), &catalog_, &random_,
                                        &wall_clock_, &metrics_, options_);
    if (!tier.ok()) co_return tier.status();
    tier_ = *std::move(tier);
    co_return OkStatus();
  }
  io::Task<Status> CloseTier(Duration grace) {
    co_await tier_->Close(grace);
    tier_.reset();
    co_return OkStatus();
  }
  void Shut() {
    thread_.reset();
    engine_.reset();
    arena_.reset();
  }
};

inline std::string DiskBackendName(const ::testing::TestParamInfo<io::Backend>& info) {
  return info.param == io::Backend::kUring ? "uring" : "epoll";
}

#define EMBER_DISK_BACK_ENDS(Suite)                                                     \
  INSTANTIATE_TEST_SUITE_P(BackEnds, Suite,                                             \
                           ::testing::Values(io::Backend::kUring, io::Backend::kEpoll), \
                           DiskBackendName)

}  // namespace ember::kv::testing
