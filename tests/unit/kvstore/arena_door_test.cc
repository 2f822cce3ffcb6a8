// The door hands memory to those who may have it, takes over from the dead and never from the
// living. What a client makes of bad offers is in tests/unit/cluster.
#include "kvstore/server/arena_door.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "client/cluster/mapped_arena.h"
#include "client/io/sync.h"
#include "kvstore/memory/arena.h"
#include "proto/wire/arena_offer.h"
#include "tests/unit/support/temp_folder.h"

namespace ember::kv::testing {
namespace {

using ::testing::HasSubstr;
using Mapped = Result<std::shared_ptr<const cluster::MappedArena>>;

class ArenaDoorTest : public ::testing::Test {
 protected:
  ~ArenaDoorTest() override { std::filesystem::remove_all(made_); }

  Result<std::unique_ptr<ArenaDoor>> Open(const std::string& node_id, uint32_t shards = 1) {
    std::vector<SharedArena> arenas;
    for (uint32_t shard = 0; shard < shards; ++shard) {
      arenas_.push_back(*Arena::Make(64 << 10, false));
      arenas.push_back({io::FileDescriptor(*arenas_.back()->ShareReadOnly()), 64 << 10});
    }
    return ArenaDoor::Open({folder_, node_id, 77}, std::move(arenas), &registry_);
  }
  Mapped Map(const std::string& node_id, uint32_t shard = 0) {
    const wire::HelloReply hello{
        .node_id = node_id, .incarnation = 77, .shard = shard, .shm_path = PathOf(node_id, shard)};
    return io::RunOnLoop<Mapped>(thread_->loop(), [&] {
      return cluster::MappedArena::Map(thread_->loop(), hello, seconds(20));
    });
  }
  std::string PathOf(const std::string& node_id, uint32_t shard = 0) const {
    return folder_ + "/" + wire::ArenaSocketName(node_id, shard);
  }
  static int BoundSocket(const std::string& path) {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path.copy(address.sun_path, path.size());
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  const std::string made_ = MakeTempFolder();
  std::string folder_ = made_;
  MetricsRegistry registry_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::unique_ptr<io::LoopThread> thread_ = *io::LoopThread::Make(io::Backend::kEpoll);
};

TEST_F(ArenaDoorTest, EachShardsMemoryIsSeenAsItChanges) {
  auto door = Open("s1", 2);
  ASSERT_TRUE(door.ok()) << door.status().ToString();
  for (uint32_t shard : {0, 1}) {
    EXPECT_EQ((*door)->path(shard), PathOf("s1", shard));
    const Mapped mapped = Map("s1", shard);
    ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
    EXPECT_EQ((*mapped)->capacity(), 64u << 10);
    const Extent extent = *arenas_[shard]->Allocate(4096);
    arenas_[shard]->At(extent)[9] = std::byte(shard + 1);
    EXPECT_EQ((*(*mapped)->At({extent.offset + 9, 1}))[0], std::byte(shard + 1));
  }
}

TEST_F(ArenaDoorTest, OnlyItsUserSeesTheSocketAndItGoesWithTheNode) {
  auto door = Open("s1");
  struct stat found {};
  ASSERT_EQ(stat(PathOf("s1").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  door = UnavailableError("closed");
  EXPECT_NE(stat(PathOf("s1").c_str(), &found), 0);
  EXPECT_TRUE(Open("s1").ok());
}

// The process's own credentials can't be changed and changed back safely, so a child asks.
TEST_F(ArenaDoorTest, AnotherUserIsLetInByNeitherModeNorDoor) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be another user";
  auto door = Open("s1");
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  PathOf("s1").copy(address.sun_path, sizeof address.sun_path);
  // 1: could not connect; 2: connected, and the door closed without a word; 3: got something.
  const auto ask = [&] {
    const pid_t child = fork();
    if (child == 0) {
      if (setuid(65534) != 0) _exit(9);
      const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
      if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) _exit(1);
      char byte;
      _exit(recv(fd, &byte, 1, 0) <= 0 ? 2 : 3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(ask(), 1);
  ASSERT_EQ(chmod(PathOf("s1").c_str(), 0666), 0);  // as a careless operator might
  EXPECT_EQ(ask(), 2);
  EXPECT_THAT(registry_.RenderPrometheusText(), HasSubstr("ember_store_shm_refused_total 1"));
  EXPECT_TRUE(Map("s1").ok());
}

TEST_F(ArenaDoorTest, TheSocketOfADeadNodeIsReplaced) {
  close(BoundSocket(PathOf("s1")));
  EXPECT_EQ(Map("s1").status().code(), StatusCode::kUnavailable);
  auto door = Open("s1");
  ASSERT_TRUE(door.ok()) << door.status().ToString();
  EXPECT_TRUE(Map("s1").ok());
}

TEST_F(ArenaDoorTest, ALiveNodeKeepsItsSocket) {
  auto first = Open("s1");
  const Status second = Open("s1").status();
  EXPECT_EQ(second.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.message()), HasSubstr("--node-id"));
  EXPECT_TRUE(Map("s1").ok());
  EXPECT_TRUE(Open("s2").ok());
}

TEST_F(ArenaDoorTest, WhatIsNoSocketIsNotRemoved) {
  std::filesystem::create_directory(PathOf("s1"));
  EXPECT_THAT(std::string(Open("s1").status().message()), HasSubstr("in the way"));
  EXPECT_TRUE(std::filesystem::is_directory(PathOf("s1")));
}

TEST_F(ArenaDoorTest, BadFoldersAreNamed) {
  EXPECT_EQ(Open(std::string(100, 'x')).status().code(), StatusCode::kInvalid);
  folder_ += "/absent";
  EXPECT_THAT(std::string(Open("s1").status().message()), HasSubstr("/absent/"));
}

}  // namespace
}  // namespace ember::kv::testing
