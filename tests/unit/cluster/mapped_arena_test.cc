// What a client maps, and what it refuses to map: whoever stands at the socket, it neither crashes
// nor waits for long nor reads what the node's hello did not promise.
#include "client/cluster/mapped_arena.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "client/io/file_descriptor.h"
#include "client/io/sync.h"
#include "proto/wire/arena_offer.h"
#include "tests/unit/support/temp_folder.h"

namespace ember::cluster {
namespace {

using ::testing::HasSubstr;
using Mapped = Result<std::shared_ptr<const MappedArena>>;

constexpr uint64_t kCapacity = 64 << 10;
constexpr wire::ArenaOffer kOffer{.incarnation = 77, .shard = 0, .capacity = kCapacity};

io::FileDescriptor Memory(uint64_t size, int seals) {
  io::FileDescriptor fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

class MappedArenaTest : public ::testing::TestWithParam<io::Backend> {
 protected:
  void SetUp() override {
    folder_ = MakeTempFolder();
    path_ = folder_ + "/" + wire::ArenaSocketName("s1", 0);
    Result<std::unique_ptr<io::LoopThread>> thread = io::LoopThread::Make(GetParam());
    if (!thread.ok()) GTEST_SKIP() << thread.status().ToString();
    thread_ = *std::move(thread);
    listener_ = Listen();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  io::FileDescriptor Listen() const {
    io::FileDescriptor fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path_.copy(address.sun_path, path_.size());
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(fd.get(), 8), 0);
    return fd;
  }
  // Answers the next connection.
  void Serve(Bytes message, std::vector<int> fds) const {
    const io::FileDescriptor connection(accept(listener_.get(), nullptr, nullptr));
    iovec vector{message.data(), message.size()};
    alignas(cmsghdr) std::byte control[CMSG_SPACE(8 * sizeof(int))]{};
    msghdr header{};
    header.msg_iov = &vector;
    header.msg_iovlen = 1;
    if (!fds.empty()) {
      header.msg_control = control;
      header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* rights = CMSG_FIRSTHDR(&header);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
    }
    if (!message.empty()) (void)sendmsg(connection.get(), &header, MSG_NOSIGNAL);
  }
  Mapped Map(Duration timeout = seconds(20)) {
    return io::RunOnLoop<Mapped>(
        thread_->loop(), [&] { return MappedArena::Map(thread_->loop(), hello_, timeout); });
  }
  Mapped MapWhatIsServed(Bytes message, std::vector<int> fds) {
    std::thread server([&] { Serve(std::move(message), std::move(fds)); });
    Mapped mapped = Map();
    server.join();
    return mapped;
  }
  static size_t OpenDescriptors() {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                             std::filesystem::directory_iterator()));
  }

  std::string folder_, path_;
  std::unique_ptr<io::LoopThread> thread_;
  io::FileDescriptor listener_;
  wire::HelloReply hello_{.node_id = "s1", .incarnation = 77, .shard = 0, .shm_path = ""};
};

INSTANTIATE_TEST_SUITE_P(BackEnds, MappedArenaTest,
                         ::testing::Values(io::Backend::kUring, io::Backend::kEpoll),
                         [](const auto& info) {
                           return info.param == io::Backend::kUring ? "uring" : "epoll";
                         });

TEST_P(MappedArenaTest, WhatWasPromisedIsMappedAndBounded) {
  hello_.shm_path = path_;
  const io::FileDescriptor memory = Memory(kCapacity + 100, F_SEAL_SHRINK);
  ASSERT_EQ(pwrite(memory.get(), "abc", 3, 5000), 3);
  const Mapped mapped = MapWhatIsServed(Encode(kOffer), {memory.get()});
  ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
  const MappedArena& arena = **mapped;
  EXPECT_EQ(AsString(*arena.At({5000, 3})), "abc");
  EXPECT_TRUE(arena.At({0, kCapacity}));
  EXPECT_TRUE(arena.At({kCapacity, 0}));
  for (const wire::ArenaPlace& place : {wire::ArenaPlace{0, kCapacity + 1},
                                        {kCapacity, 1},
                                        {kCapacity + 1, 0},
                                        {~0ull, 2},
                                        {2, ~0ull}}) {
    EXPECT_FALSE(arena.At(place)) << place.offset << "+" << place.length;
  }
  EXPECT_TRUE(arena.IsOf(hello_));
  hello_.incarnation = 78;
  EXPECT_FALSE(arena.IsOf(hello_));
}

TEST_P(MappedArenaTest, OffersThatAreNotWhatTheHelloPromisedAreRefused) {
  hello_.shm_path = path_;
  const io::FileDescriptor good = Memory(kCapacity, F_SEAL_SHRINK);
  const io::FileDescriptor could_shrink = Memory(kCapacity, F_SEAL_GROW);
  const io::FileDescriptor short_one = Memory(kCapacity - 1, F_SEAL_SHRINK);
  const io::FileDescriptor empty = Memory(0, F_SEAL_SHRINK);
  const io::FileDescriptor file(open((folder_ + "/file").c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_EQ(ftruncate(file.get(), kCapacity), 0);
  const io::FileDescriptor device(open("/dev/zero", O_RDONLY));
  Bytes garbled = Encode(kOffer);
  garbled[9] ^= std::byte{1};
  Bytes longer = Encode(kOffer);
  longer.push_back(std::byte{0});
  const struct {
    const char* what;
    Bytes message;
    std::vector<int> fds;
    StatusCode code;
  } kCases[] = {
      {"nothing", {}, {}, StatusCode::kUnavailable},
      {"a garbled offer", garbled, {good.get()}, StatusCode::kInvalid},
      {"a longer offer", longer, {good.get()}, StatusCode::kInvalid},
      {"megabytes", Bytes(100'000), {good.get()}, StatusCode::kInvalid},
      {"no memory", Encode(kOffer), {}, StatusCode::kMismatch},
      {"too many descriptors", Bytes(36), std::vector<int>(8, good.get()), StatusCode::kInvalid},
      {"another life",
       Encode(wire::ArenaOffer{78, 0, kCapacity}),
       {good.get()},
       StatusCode::kMismatch},
      {"another shard",
       Encode(wire::ArenaOffer{77, 1, kCapacity}),
       {good.get()},
       StatusCode::kMismatch},
      {"no capacity", Encode(wire::ArenaOffer{77, 0, 0}), {good.get()}, StatusCode::kMismatch},
      {"a capacity that lies",
       Encode(wire::ArenaOffer{77, 0, ~0ull}),
       {good.get()},
       StatusCode::kMismatch},
      {"memory that could shrink", Encode(kOffer), {could_shrink.get()}, StatusCode::kMismatch},
      {"memory that is too short", Encode(kOffer), {short_one.get()}, StatusCode::kMismatch},
      {"empty memory", Encode(kOffer), {empty.get()}, StatusCode::kMismatch},
      {"a file", Encode(kOffer), {file.get()}, StatusCode::kMismatch},
      {"a device", Encode(kOffer), {device.get()}, StatusCode::kMismatch},
  };
  const size_t before = OpenDescriptors();
  for (const auto& c : kCases) {
    const Status status = MapWhatIsServed(c.message, c.fds).status();
    EXPECT_EQ(status.code(), c.code) << c.what << ": " << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_)) << c.what;
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST_P(MappedArenaTest, WhoSaysNothingIsGivenUp) {
  hello_.shm_path = path_;
  EXPECT_EQ(Map(milliseconds(20)).status().code(), StatusCode::kDeadline);
}

TEST_P(MappedArenaTest, NoSocketNoPermissionNoNameOfItsOwn) {
  hello_.shm_path = path_;
  listener_ = io::FileDescriptor();
  EXPECT_EQ(Map().status().code(), StatusCode::kUnavailable);  // nobody listens
  ASSERT_EQ(unlink(path_.c_str()), 0);
  EXPECT_EQ(Map().status().code(), StatusCode::kUnavailable);
  hello_.shm_path = folder_ + "/" + wire::ArenaSocketName(std::string(200, 'x'), 0);
  hello_.node_id = std::string(200, 'x');
  EXPECT_EQ(Map().status().code(), StatusCode::kInvalid);
  hello_.node_id = "s1";
  // A hello can't send a client to other programs' sockets.
  for (const char* path :
       {"", "/", "/run/docker.sock", "ember-s1-0.sock", "/run/ember-s2-0.sock"}) {
    hello_.shm_path = path;
    EXPECT_EQ(Map().status().code(), StatusCode::kMismatch) << path;
  }
}

TEST_P(MappedArenaTest, ASocketOfAnotherUserIsNotTrusted) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be another user";
  hello_.shm_path = path_;
  listener_ = io::FileDescriptor();
  ASSERT_EQ(unlink(path_.c_str()), 0);
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(65534) != 0) _exit(9);
    const io::FileDescriptor listener = Listen();
    (void)!write(ready[1], "x", 1);
    pause();
    _exit(0);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const Status status = Map().status();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  EXPECT_EQ(status.code(), StatusCode::kMismatch);
  EXPECT_THAT(std::string(status.message()), HasSubstr("user 65534"));
}

}  // namespace
}  // namespace ember::cluster
