// A disk that takes seconds for everything: memory hits and puts into memory don't notice.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "client/cluster/connection.h"
#include "kvstore/server/data_server.h"
#include "tests/sim/seeds.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_tier.h"
#include "tests/unit/kvstore/test_segments.h"

namespace ember::sim {
namespace {

using cluster::Connection;
using kv::testing::KeyOf;
using kv::testing::MakeSegment;

constexpr size_t kPayload = 8 << 10;
constexpr uint64_t kOnDisk = 30;  // numbers below are on disk only, the others in memory
constexpr uint64_t kInMemory = 40;
constexpr Duration kSoon = milliseconds(10);

// A shard with data on disk and in memory, behind its data server.
class SlowDiskNode {
 public:
  explicit SlowDiskNode(uint64_t seed)
      : simulation_(std::make_shared<Simulation>(seed)),
        disk_(std::make_shared<SimDisk>(simulation_.get())),
        catalog_(simulation_.get(), &disk_->injected),
        wall_clock_(simulation_.get()),
        client_(simulation_, {.address = "127.0.0.1"}) {
    options_.memory_bytes = 1 << 20;
    options_.disk.directory = "/data";
    options_.disk.identity = {.cluster = "c", .node = "s1", .shards = 1};
    options_.disk.region_bytes = 256 << 10;
    options_.disk.capacity_bytes = 4 << 20;
    options_.disk.min_free_bytes = 0;
  }

  void Run() {
    {
      SimTier first(simulation_, disk_, &catalog_, &wall_clock_, options_);
      ASSERT_TRUE(first.Start().ok());
      for (uint64_t number = 0; number < kOnDisk; ++number) Put(first.engine(), number);
      first.Stop(seconds(100));
    }
    SimTier run(simulation_, disk_, &catalog_, &wall_clock_, options_);
    ASSERT_TRUE(run.Start().ok());
    for (uint64_t number = kOnDisk; number < kInMemory; ++number) Put(run.engine(), number);
    disk_->faults[DiskFault::kSlow] = 1;
    disk_->faults.latency_min = seconds(1);
    disk_->faults.latency_max = disk_->faults.slow_max = seconds(3);
    auto server = kv::DataServer::Listen(&run.loop(), &run.engine(), &run.tier(), &metrics_,
                                         {.listen = {"127.0.0.1", 0}, .node_id = "s1"});
    ASSERT_TRUE(server.ok());
    (*server)->Serve();
    port_ = (*server)->port();
    io::Gate gate;
    bool stop = false;
    for (uint64_t number = 0; number < kOnDisk; number += 10) gate.Spawn(ReadDisk(number));
    gate.Spawn(ReadMemory(&stop));
    gate.Spawn(Write(&stop));
    simulation_->RunFor(seconds(20));
    stop = true;
    EXPECT_TRUE(simulation_->RunUntil([&] { return gate.running() == 0; }, seconds(1000)));
    EXPECT_EQ(disk_reads_, kOnDisk);
    EXPECT_GT(memory_reads_, 1000u);
    EXPECT_GT(writes_, 100u);
    io::Gate end;
    end.Spawn([](kv::DataServer& server) -> io::Task<void> {
      (void)co_await server.Stop(Duration::zero());
    }(**server));
    EXPECT_TRUE(simulation_->RunUntil([&] { return end.running() == 0; }, seconds(1000)));
    server->reset();
    run.Stop(seconds(1000));
  }

 private:
  static void Put(kv::ShardEngine& engine, uint64_t number) {
    const auto segment = MakeSegment(number, kPayload);
    const auto reserved = engine.Reserve(1, segment.encoded_header);
    ASSERT_EQ(reserved.code, StatusCode::kOk);
    {
      auto grant = engine.BeginWrite(1, reserved.token, 0, kPayload);
      ASSERT_TRUE(grant.ok());
      std::memcpy(grant->remaining().data(), segment.payload.data(), kPayload);
      grant->Advance(kPayload);
    }
    ASSERT_EQ(engine.Commit(1, reserved.token), StatusCode::kOk);
  }

  io::Task<Status> Get(Connection& connection, uint64_t number) {
    const uint64_t id = connection.NextRequestId();
    const Bytes meta = Encode(wire::Get{{{.key = KeyOf(number)}}});
    EMBER_CO_RETURN_IF_ERROR(co_await connection.Send(wire::FrameType::kGet, id, meta));
    auto reply = co_await connection.ReadReply(wire::FrameType::kGetReply, id);
    if (!reply.ok()) co_return reply.status();
    Bytes payload(reply->header.payload_length);
    if (payload.size() != kPayload) co_return NotFoundError("missed");
    EMBER_CO_RETURN_IF_ERROR(co_await connection.ReadPayload(payload));
    EXPECT_TRUE(kv::testing::IsPayloadOf(number, payload));
    co_return OkStatus();
  }
  io::Task<std::unique_ptr<Connection>> Dial() {
    auto connection = co_await Connection::Dial(
        client_, {.endpoint = {"127.0.0.1", port_}, .client_name = "test", .timeout = seconds(1)});
    EMBER_CHECK(connection.ok(), "the node answers");
    co_return *std::move(connection);
  }

  io::Task<void> ReadDisk(uint64_t first) {
    auto connection = co_await Dial();
    for (uint64_t number = first; number < first + 10; ++number) {
      const Status status = co_await Get(*connection, number);
      EXPECT_TRUE(status.ok()) << status.ToString();
      disk_reads_ += status.ok();
    }
  }
  io::Task<void> ReadMemory(const bool* stop) {
    auto connection = co_await Dial();
    while (!*stop) {
      const TimePoint start = simulation_->Now();
      const uint64_t number = simulation_->dice().Between(kOnDisk, kInMemory - 1);
      const Status status = co_await Get(*connection, number);
      EXPECT_TRUE(status.ok()) << status.ToString();
      EXPECT_LT(simulation_->Now() - start, kSoon);
      ++memory_reads_;
      co_await client_.Sleep(milliseconds(5));
    }
  }
  // Into memory, written to disk by policy some time.
  io::Task<void> Write(const bool* stop) {
    auto connection = co_await Dial();
    for (uint64_t number = 1000; !*stop && number < 1020; ++number) {
      for (uint64_t again = 0; again < 10; ++again) {
        const auto segment = MakeSegment(number, 1000 + again);
        const TimePoint start = simulation_->Now();
        auto reserved = co_await connection->Call<wire::ReserveReply>(
            wire::FrameType::kReserve, wire::Reserve{{segment.encoded_header}},
            wire::FrameType::kReserveReply);
        EXPECT_TRUE(reserved.ok());
        if (reserved.ok() && !reserved->entries[0].have) {
          const wire::AttemptToken token = reserved->entries[0].token;
          const Bytes meta = Encode(wire::Write{token});
          EXPECT_TRUE(
              (co_await connection->Send(wire::FrameType::kWrite, connection->NextRequestId(), meta,
                                         segment.payload))
                  .ok());
          auto committed = co_await connection->Call<wire::CommitReply>(
              wire::FrameType::kCommit, wire::Commit{.tokens = {token}},
              wire::FrameType::kCommitReply);
          EXPECT_TRUE(committed.ok() && committed->entries[0].code == StatusCode::kOk);
        }
        EXPECT_LT(simulation_->Now() - start, kSoon);
        ++writes_;
        co_await client_.Sleep(milliseconds(20));
      }
    }
  }

  std::shared_ptr<Simulation> simulation_;
  std::shared_ptr<SimDisk> disk_;
  SimCatalog catalog_;
  SimWallClock wall_clock_;
  SimLoop client_;
  SimTierOptions options_;
  MetricsRegistry registry_;
  kv::ServerMetrics metrics_{&registry_, {}};
  uint16_t port_ = 0;
  uint64_t disk_reads_ = 0;
  uint64_t memory_reads_ = 0;
  uint64_t writes_ = 0;
};

TEST(SlowDiskSim, MemoryIsAsFastAsEver) {
  spdlog::set_level(spdlog::level::off);
  ForEachSeed(5, [](uint64_t seed) { SlowDiskNode(seed).Run(); });
  spdlog::set_level(spdlog::level::info);
}

}  // namespace
}  // namespace ember::sim
