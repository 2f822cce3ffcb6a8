// ServerTest: a data server with its engine on a loop of its own, on either back end, and an honest
// client beside whatever the test does to it.
#pragma once

#include <gtest/gtest.h>

#include <thread>

#include "client/io/sync.h"
#include "kvstore/engine/lru_policy.h"
#include "kvstore/memory/arena.h"
#include "kvstore/server/data_server.h"
#include "tests/unit/kvstore/raw_client.h"

namespace ember::kv::testing {

class ServerTest : public ::testing::TestWithParam<io::Backend> {
 protected:
  struct Settings {
    uint64_t memory = 32 << 20;
    EngineOptions engine = {};
    DataServerOptions server = {};
  };

  void SetUp() override {
    if (GetParam() == io::Backend::kUring && !io::MakeLoop(io::Backend::kUring).ok()) {
      GTEST_SKIP() << "io_uring is refused here";
    }
    Start({});
  }
  void TearDown() override {
    if (thread_ == nullptr) return;
    witness_.reset();
    StopServer(seconds(2));
    EXPECT_EQ(engine_->attempts(), 0u);
    EXPECT_EQ(engine_->leases(), 0u);
    EXPECT_EQ(engine_->pinned(), 0u);
    EXPECT_EQ(engine_->reserved_bytes(), 0u);
    Shut();
  }

  // Again, with other settings.
  void Start(Settings settings) {
    if (thread_ != nullptr) {
      witness_.reset();
      StopServer(Duration::zero());
      Shut();
    }
    settings.server.node_id = "s1";
    settings.server.incarnation = 77;
    settings.server.sweep_interval = milliseconds(5);
    settings.server.farewell_timeout = milliseconds(20);
    arena_ = *Arena::Make(settings.memory, false);
    thread_ = *io::LoopThread::Make(GetParam());
    engine_ =
        std::make_unique<ShardEngine>(settings.engine, arena_.get(), std::make_unique<LruPolicy>(),
                                      &thread_->loop(), &wall_clock_, &random_, &engine_metrics_);
    const Status started = io::RunOnLoop<Status>(thread_->loop(), [&]() -> io::Task<Status> {
      auto server =
          DataServer::Listen(&thread_->loop(), engine_.get(), nullptr, &metrics_, settings.server);
      if (!server.ok()) co_return server.status();
      server_ = *std::move(server);
      server_->Serve();
      port_ = server_->port();
      co_return OkStatus();
    });
    ASSERT_TRUE(started.ok()) << started.ToString();
    witness_ = Client();
    witness_->Put(MakeSegment(kWitness, 3000));
  }
  void StopServer(Duration grace) {
    if (server_ == nullptr) return;
    (void)io::RunOnLoop<Status>(thread_->loop(), [&] { return StopOnLoop(grace); });
  }
  io::Task<Status> StopOnLoop(Duration grace) {
    (void)co_await server_->Stop(grace);
    server_.reset();
    co_return OkStatus();
  }

  std::unique_ptr<RawClient> Client() { return RawClient::Greeted(port_); }

  // An honest client connected all the time, and a new one, are served as ever.
  void ExpectOthersUnaffected() {
    EXPECT_TRUE(witness_->Ping());
    EXPECT_TRUE(IsPayloadOf(kWitness, witness_->GetOne(kWitness).payload));
    EXPECT_TRUE(Client()->Ping());
  }

  // Reads the engine on its own thread.
  template <typename Read>
  uint64_t OnEngine(Read read) {
    return *io::RunOnLoop<Result<uint64_t>>(thread_->loop(), [&]() -> io::Task<Result<uint64_t>> {
      co_return static_cast<uint64_t>(read(*engine_));
    });
  }
  // Looks again and again, for some seconds.
  template <typename Condition>
  bool Eventually(Condition condition) {
    for (int i = 0; i < 2000; ++i) {
      if (condition()) return true;
      (void)io::RunOnLoop<Status>(thread_->loop(), [this] { return Pause(); });
    }
    return false;
  }
  io::Task<Status> Pause() {
    co_await thread_->loop().Sleep(milliseconds(5));
    co_return OkStatus();
  }

  static constexpr uint64_t kWitness = 1'000'000;

  MetricsRegistry registry_;
  EngineMetrics engine_metrics_{&registry_};
  ServerMetrics metrics_{&registry_};
  SystemRandom random_;
  SystemWallClock wall_clock_;
  uint16_t port_ = 0;
  std::unique_ptr<RawClient> witness_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<ShardEngine> engine_;
  std::unique_ptr<DataServer> server_;
  std::unique_ptr<io::LoopThread> thread_;

 private:
  void Shut() {
    thread_.reset();
    engine_.reset();
    arena_.reset();
  }
};

inline std::string BackendName(const ::testing::TestParamInfo<io::Backend>& info) {
  return info.param == io::Backend::kUring ? "uring" : "epoll";
}

#define EMBER_BOTH_BACK_ENDS(Suite) \
  INSTANTIATE_TEST_SUITE_P(         \
      BackEnds, Suite, ::testing::Values(io::Backend::kUring, io::Backend::kEpoll), BackendName)

}  // namespace ember::kv::testing
