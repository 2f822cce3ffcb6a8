// What only the io_uring loop has: messages between rings, and kernels that refuse a part of it.

#include "client/io/uring_loop.h"

#include <fcntl.h>

#include <thread>
#include <vector>

#include "tests/unit/io/file_fixture.h"

namespace ember::io {
namespace {

constexpr unsigned kFlags =
    IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;

FileDescriptor Duplicate(int fd) { return FileDescriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

class UringTest : public testing::Test {
 protected:
  void SetUp() override {
    const Status status = MakeLoop(Backend::kUring).status();
    if (!status.ok()) GTEST_SKIP() << status.ToString();
  }

  // Others can wake it by messages only.
  static std::unique_ptr<Loop> MakeMessageLoop() {
    FileDescriptor wake = Must(PostQueue::MakeWakeDescriptor());
    io_uring ring;
    EMBER_CHECK(io_uring_queue_init(64, &ring, kFlags) == 0, "a ring");
    RingAddress address{Duplicate(ring.ring_fd), FileDescriptor()};
    return std::make_unique<UringLoop>(std::move(wake), ring, std::move(address));
  }

  // A loop on a kernel that has neither messages between rings nor registered memory.
  static std::unique_ptr<Loop> MakeOldLoop() {
    FileDescriptor wake = Must(PostQueue::MakeWakeDescriptor());
    io_uring ring;
    EMBER_CHECK(io_uring_queue_init(64, &ring, kFlags) == 0, "a ring");
    std::vector<io_uring_restriction> allowed;
    for (uint8_t op = 0; op < IORING_OP_LAST; ++op) {
      if (op == IORING_OP_MSG_RING) continue;
      allowed.push_back(
          {.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = op, .resv = 0, .resv2 = {}});
    }
    allowed.push_back({.opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED,
                       .sqe_flags = 0xff,
                       .resv = 0,
                       .resv2 = {}});
    allowed.push_back({.opcode = IORING_RESTRICTION_REGISTER_OP,
                       .register_op = IORING_REGISTER_ENABLE_RINGS,
                       .resv = 0,
                       .resv2 = {}});
    EMBER_CHECK(io_uring_register(ring.ring_fd, IORING_REGISTER_RESTRICTIONS, allowed.data(),
                                  static_cast<unsigned>(allowed.size())) == 0,
                "restrictions");
    RingAddress address{Duplicate(ring.ring_fd), Duplicate(wake.get())};
    return std::make_unique<UringLoop>(std::move(wake), ring, std::move(address));
  }

  // Each wakes the other in turn, `rounds` times; both sleep in between.
  static void PingPong(Loop& first, Loop& second, int rounds) {
    int left = rounds;
    std::function<void()> ping;
    const std::function<void()> pong = [&] { first.Post(ping); };
    ping = [&] {
      if (--left >= 0) return second.Post(pong);
      second.Stop();
      first.Stop();
    };
    first.Post(ping);
    std::thread other([&] { second.Run(); });
    first.Run();
    other.join();
    EXPECT_EQ(left, -1);
  }
};

TEST_F(UringTest, LoopsWakeEachOtherByMessages) {
  const size_t descriptors = OpenDescriptors();
  {
    const std::unique_ptr<Loop> first = MakeMessageLoop();
    const std::unique_ptr<Loop> second = MakeMessageLoop();
    PingPong(*first, *second, 2000);
  }
  EXPECT_EQ(OpenDescriptors(), descriptors);
}

TEST_F(UringTest, LoopsWakeEachOtherWhereThereAreNoMessages) {
  const std::unique_ptr<Loop> first = MakeOldLoop();
  const std::unique_ptr<Loop> second = MakeOldLoop();
  PingPong(*first, *second, 2000);
}

// A message to a ring that isn't enabled yet fails; what was posted runs all the same.
TEST_F(UringTest, APostReachesALoopThatRunsLater) {
  const std::unique_ptr<Loop> first = Must(MakeLoop(Backend::kUring));
  const std::unique_ptr<Loop> second = Must(MakeLoop(Backend::kUring));
  bool ran = false;
  first->Post([&] {
    second->Post([&] {
      ran = true;
      second->Stop();
    });
    first->Stop();
  });
  first->Run();
  second->Run();
  EXPECT_TRUE(ran);
}

// The message is on its way when its target dies.
TEST_F(UringTest, AMessageToALoopThatDiesIsDropped) {
  const std::unique_ptr<Loop> first = Must(MakeLoop(Backend::kUring));
  for (int round = 0; round < 50; ++round) {
    first->Post([&first, round] {
      const std::unique_ptr<Loop> second = Must(MakeLoop(Backend::kUring));
      second->Post([] {});
      if (round == 49) first->Stop();
    });
  }
  first->Run();
}

TEST_F(UringTest, WithoutRegisteredMemoryFilesWorkTheSame) {
  const std::unique_ptr<Loop> loop = MakeOldLoop();
  AlignedBytes memory(64 << 10);
  const std::string path = testing::TempDir() + "ember_uring_" + std::to_string(::getpid());
  std::unique_ptr<File> file = Must(loop->files().Open(path, {.create = true, .write = true}));
  Result<size_t> read = InternalError("not done");
  Gate gate;
  loop->Post([&] {
    gate.Spawn(
        [](Loop& loop, File& file, AlignedBytes& memory, Result<size_t>* read) -> Task<void> {
          EXPECT_FALSE(loop.RegisterMemory(memory.span()).ok());
          const Bytes bytes = Pattern(memory.span().size());
          const ByteSpan part = bytes;
          EXPECT_TRUE((co_await file.WriteAt(0, {&part, 1})).ok());
          *read = co_await file.ReadAt(0, memory.span());
          EXPECT_TRUE(std::ranges::equal(memory.span(), bytes));
          loop.Stop();
        }(*loop, *file, memory, &read));
  });
  loop->Run();
  EXPECT_EQ(*read, memory.span().size());
  EXPECT_TRUE(loop->files().Remove(path).ok());
}

}  // namespace
}  // namespace ember::io
