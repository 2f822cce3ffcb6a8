// SimDisk: what survives a loss of power, and that each fault is what it says.
#include <gtest/gtest.h>

#include <algorithm>

#include "client/io/gate.h"
#include "tests/sim/seeds.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_loop.h"

namespace ember::sim {
namespace {

constexpr io::OpenOptions kCreate{.create = true, .write = true};

Bytes Filled(size_t size, uint8_t value) { return Bytes(size, std::byte{value}); }

class DiskModelTest : public ::testing::Test {
 protected:
  void Begin(uint64_t seed) {
    loops_.clear();
    disk_.reset();
    simulation_ = std::make_shared<Simulation>(seed);
    disk_ = std::make_shared<SimDisk>(simulation_.get());
    Mount();
  }
  // Loops of before stay: files of theirs may be tried still.
  void Mount() {
    loop_ =
        loops_.emplace_back(std::make_unique<SimLoop>(simulation_, SimLoopOptions{.disk = disk_}))
            .get();
  }
  void LosePower() {
    disk_->LosePower();
    Mount();
  }
  Status Run(std::function<io::Task<Status>()> make) {
    Status result = InternalError("pending");
    io::Gate gate;
    gate.Spawn([](std::function<io::Task<Status>()>& make, Status* out) -> io::Task<void> {
      *out = co_await make();
    }(make, &result));
    EXPECT_TRUE(simulation_->RunUntil([&] { return gate.running() == 0; }, seconds(1000)));
    return result;
  }
  std::unique_ptr<io::File> Open(const std::string& path) {
    return *loop_->files().Open(path, kCreate);
  }
  Status Write(io::File& file, uint64_t offset, const Bytes& bytes) {
    return Run([&]() -> io::Task<Status> {
      const ByteSpan part = bytes;
      co_return co_await file.WriteAt(offset, {&part, 1});
    });
  }
  Status Sync(io::File& file) {
    return Run([&] { return file.Sync(); });
  }
  Bytes Read(io::File& file, uint64_t offset, size_t size) {
    Bytes bytes(size);
    const Status status = Run([&]() -> io::Task<Status> {
      Result<size_t> n = co_await file.ReadAt(offset, bytes);
      if (n.ok()) bytes.resize(*n);
      co_return n.status();
    });
    return status.ok() ? bytes : Bytes();
  }
  bool Exists(const std::string& path) { return loop_->files().Open(path, {}).ok(); }

  std::shared_ptr<Simulation> simulation_;
  std::shared_ptr<SimDisk> disk_;
  std::vector<std::unique_ptr<SimLoop>> loops_;
  SimLoop* loop_ = nullptr;  // the last one
};

TEST_F(DiskModelTest, SyncedBytesSurviveAndOthersMayBeOldNewOrTorn) {
  int old_pages = 0;
  int new_pages = 0;
  int torn_pages = 0;
  ForEachSeed(200, [&](uint64_t seed) {
    Begin(seed);
    const auto file = Open("/f");
    ASSERT_TRUE(Write(*file, 0, Filled(8 * kPageBytes, 1)).ok());
    ASSERT_TRUE(Sync(*file).ok());
    ASSERT_TRUE(loop_->files().SyncFolder("/").ok());
    ASSERT_TRUE(Write(*file, 0, Filled(4 * kPageBytes, 2)).ok());
    LosePower();
    const Bytes after = Read(*Open("/f"), 0, 8 * kPageBytes);
    ASSERT_EQ(after.size(), 8 * kPageBytes);
    for (size_t page = 0; page < 8; ++page) {
      const ByteSpan bytes = ByteSpan(after).subspan(page * kPageBytes, kPageBytes);
      const auto ones = std::ranges::count(bytes, std::byte{1});
      const auto twos = std::ranges::count(bytes, std::byte{2});
      ASSERT_EQ(ones + twos, static_cast<ptrdiff_t>(kPageBytes));
      ASSERT_EQ(twos % kSectorBytes, 0u) << "a sector is written at once";
      if (page >= 4) ASSERT_EQ(twos, 0);
      ++(page >= 4 || twos == 0 ? old_pages : ones == 0 ? new_pages : torn_pages);
    }
    // What was mounted before is gone.
    ASSERT_EQ(Write(*file, 0, Filled(10, 3)).code(), StatusCode::kUnavailable);
  });
  if (std::getenv("EMBER_SIM_SEED") == nullptr) {
    EXPECT_GT(old_pages, 900);
    EXPECT_GT(new_pages, 100);
    EXPECT_GT(torn_pages, 20);
  }
}

// A write that comes while a sync runs isn't part of it, and what the sync promised holds.
TEST_F(DiskModelTest, AWriteDuringASyncIsVolatile) {
  int lost = 0;
  ForEachSeed(100, [&](uint64_t seed) {
    Begin(seed);
    const auto file = Open("/f");
    ASSERT_TRUE(loop_->files().SyncFolder("/").ok());
    ASSERT_TRUE(Write(*file, 0, Filled(kPageBytes, 1)).ok());
    disk_->faults.latency_max = seconds(1);
    ASSERT_TRUE(Run([&]() -> io::Task<Status> {
                  const Bytes two = Filled(kPageBytes, 2);
                  const ByteSpan part = two;
                  io::Gate gate;
                  gate.Spawn([](io::File& file, ByteSpan part) -> io::Task<void> {
                    (void)co_await file.WriteAt(0, {&part, 1});
                  }(*file, part));
                  const Status status = co_await file->Sync();
                  co_await gate.Close();
                  co_return status;
                }).ok());
    LosePower();
    const Bytes after = Read(*Open("/f"), 0, kPageBytes);
    ASSERT_EQ(after.size(), kPageBytes);
    ASSERT_EQ(std::ranges::count(after, std::byte{0}), 0);
    lost += after[0] == std::byte{1};
  });
  if (std::getenv("EMBER_SIM_SEED") == nullptr) EXPECT_GT(lost, 20);
}

TEST_F(DiskModelTest, NamesSurviveInOrderOnceTheirFolderIsSynced) {
  int seen[4] = {};
  ForEachSeed(200, [&](uint64_t seed) {
    Begin(seed);
    ASSERT_TRUE(loop_->files().MakeFolder("/d").ok());
    ASSERT_TRUE(loop_->files().SyncFolder("/").ok());
    Open("/d/synced");
    ASSERT_TRUE(loop_->files().SyncFolder("/d").ok());
    Open("/d/a");
    ASSERT_TRUE(loop_->files().Rename("/d/a", "/d/b").ok());
    ASSERT_TRUE(loop_->files().Remove("/d/synced").ok());
    LosePower();
    const bool a = Exists("/d/a");
    const bool b = Exists("/d/b");
    const bool synced = Exists("/d/synced");
    ASSERT_FALSE(a && b) << "a rename is atomic";
    ASSERT_TRUE(synced || b) << "names change in order";
    ++seen[synced ? (a ? 1 : b ? 2 : 0) : 3];
  });
  if (std::getenv("EMBER_SIM_SEED") == nullptr) EXPECT_GT(*std::ranges::min_element(seen), 20);
}

TEST_F(DiskModelTest, AFailedSyncMayLoseWhatItShouldHaveKept) {
  int lost = 0;
  ForEachSeed(50, [&](uint64_t seed) {
    Begin(seed);
    const auto file = Open("/f");
    ASSERT_TRUE(loop_->files().SyncFolder("/").ok());
    ASSERT_TRUE(Write(*file, 0, Filled(kPageBytes, 1)).ok());
    disk_->faults[DiskFault::kSyncError] = 1;
    ASSERT_EQ(Sync(*file).code(), StatusCode::kUnavailable);
    disk_->faults[DiskFault::kSyncError] = 0;
    ASSERT_TRUE(Sync(*file).ok());
    ASSERT_EQ(Read(*file, 0, kPageBytes), Filled(kPageBytes, 1)) << "the cache has it still";
    LosePower();
    lost += Read(*Open("/f"), 0, kPageBytes) != Filled(kPageBytes, 1);
  });
  if (std::getenv("EMBER_SIM_SEED") == nullptr) EXPECT_GT(lost, 10);
}

TEST_F(DiskModelTest, EachFaultIsWhatItSays) {
  const Bytes old_bytes = Filled(2 * kPageBytes, 1);
  const Bytes new_bytes = Filled(2 * kPageBytes, 2);
  struct Expected {
    DiskFault fault;
    StatusCode written;
    bool keeps_old;  // some of it at least
  };
  for (const Expected& e : {Expected{DiskFault::kWriteError, StatusCode::kUnavailable, true},
                            Expected{DiskFault::kNoSpace, StatusCode::kNoSpace, true},
                            Expected{DiskFault::kTornWrite, StatusCode::kOk, true},
                            Expected{DiskFault::kLostWrite, StatusCode::kOk, true},
                            Expected{DiskFault::kMisdirectedWrite, StatusCode::kOk, false},
                            Expected{DiskFault::kSlow, StatusCode::kOk, false}}) {
    Begin(7);
    const auto file = Open("/f");
    ASSERT_TRUE(Write(*file, 0, Filled(64 * kPageBytes, 1)).ok());
    disk_->faults[e.fault] = 1;
    EXPECT_EQ(Write(*file, 0, new_bytes).code(), e.written);
    disk_->faults[e.fault] = 0;
    EXPECT_EQ(disk_->injected.Of(e.fault), 1u);
    const Bytes there = Read(*file, 0, new_bytes.size());
    if (e.keeps_old) EXPECT_NE(there, new_bytes) << static_cast<int>(e.fault);
    if (e.fault == DiskFault::kMisdirectedWrite) {
      const Bytes all = Read(*file, 0, 64 * kPageBytes);
      EXPECT_EQ(std::ranges::count(all, std::byte{2}), static_cast<ptrdiff_t>(new_bytes.size()));
    }
  }
  Begin(7);
  const auto file = Open("/f");
  ASSERT_TRUE(Write(*file, 0, old_bytes).ok());
  ASSERT_TRUE(Write(*file, 0, new_bytes).ok());
  disk_->faults[DiskFault::kStaleRead] = 1;
  const Bytes stale = Read(*file, 0, new_bytes.size());
  EXPECT_EQ(std::ranges::count(stale, std::byte{1}), static_cast<ptrdiff_t>(kPageBytes));
  disk_->faults[DiskFault::kStaleRead] = 0;
  disk_->faults[DiskFault::kBitFlip] = 1;
  EXPECT_NE(Read(*file, 0, new_bytes.size()), new_bytes);
  disk_->faults[DiskFault::kBitFlip] = 0;
  EXPECT_NE(Read(*file, 0, new_bytes.size()), new_bytes) << "it stays flipped";
  disk_->faults[DiskFault::kReadError] = 1;
  EXPECT_TRUE(Read(*file, 0, new_bytes.size()).empty());
}

TEST_F(DiskModelTest, SpaceIsCountedAndComesBack) {
  Begin(1);
  disk_->faults.capacity = 10 * kPageBytes;
  {
    const auto file = Open("/f");
    ASSERT_TRUE(file->Allocate(8 * kPageBytes).ok());
    EXPECT_EQ(disk_->used_bytes(), 8 * kPageBytes);
    const auto other = Open("/g");
    EXPECT_EQ(Write(*other, 0, Filled(3 * kPageBytes, 1)).code(), StatusCode::kNoSpace);
    EXPECT_EQ(other->Allocate(3 * kPageBytes).code(), StatusCode::kNoSpace);
    EXPECT_TRUE(Write(*other, 0, Filled(2 * kPageBytes, 1)).ok());
    EXPECT_TRUE(Write(*file, 0, Filled(8 * kPageBytes, 1)).ok());
    ASSERT_TRUE(loop_->files().Remove("/f").ok());
    EXPECT_EQ(disk_->used_bytes(), 10 * kPageBytes) << "an open file is used";
  }
  EXPECT_EQ(disk_->used_bytes(), 2 * kPageBytes);
  EXPECT_EQ(loop_->files().FreeBytes("/")->free_bytes, 8 * kPageBytes);
}

}  // namespace
}  // namespace ember::sim
