// The simulated world itself: what its network and disk promise, what they break, and that a seed
// repeats a history.
#include <gtest/gtest.h>

#include <algorithm>

#include "client/io/gate.h"
#include "tests/sim/seeds.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_loop.h"
#include "tests/sim/sim_network.h"

namespace ember::sim {
namespace {

using StreamPtr = std::unique_ptr<io::Stream>;

// Two hosts that talk, and a disk, under every fault.
class SmallWorld {
 public:
  explicit SmallWorld(uint64_t seed)
      : simulation_(std::make_shared<Simulation>(seed)),
        disk_(std::make_shared<SimDisk>(simulation_.get())),
        server_(simulation_, {.address = "10.0.0.1", .disk = disk_}),
        client_(simulation_, {.address = "10.0.0.2", .disk = disk_}) {}

  uint64_t Run() {
    simulation_->network().faults.reset = 0.01;
    simulation_->network().faults.stall = 0.05;
    disk_->faults[DiskFault::kReadError] = 0.05;
    disk_->faults[DiskFault::kTornWrite] = 0.05;
    auto listener = *server_.Listen({"10.0.0.1", 7000});
    io::Gate gate;
    gate.Spawn(Serve(*listener, gate));
    for (int i = 0; i < 4; ++i) gate.Spawn(Talk());
    gate.Spawn(UseDisk());
    simulation_->RunFor(seconds(20));
    listener->Close();
    server_.Stop();
    client_.Stop();
    EXPECT_TRUE(simulation_->RunUntil([&] { return server_.ended() && client_.ended(); }, hours_));
    EXPECT_EQ(gate.running(), 0u);
    return simulation_->trace();
  }

 private:
  io::Task<void> Serve(io::Listener& listener, io::Gate& gate) {
    for (;;) {
      auto stream = co_await listener.Accept();
      if (!stream.ok()) co_return;
      gate.Spawn(Echo(*std::move(stream)));
    }
  }
  io::Task<void> Echo(StreamPtr stream) {
    Bytes buffer(1000);
    for (;;) {
      auto n = co_await stream->ReadSome(buffer);
      if (!n.ok() || *n == 0) co_return;
      const ByteSpan part = ByteSpan(buffer).first(*n);
      if (!(co_await stream->WriteAll({&part, 1})).ok()) co_return;
    }
  }
  io::Task<void> Talk() {
    for (int i = 0; i < 20; ++i) {
      auto stream = co_await client_.Connect({"10.0.0.1", 7000}, seconds(1));
      if (!stream.ok()) continue;
      const Bytes sent(3000, std::byte{42});
      const ByteSpan part = sent;
      Bytes received(sent.size());
      if (!(co_await (*stream)->WriteAll({&part, 1})).ok()) continue;
      if ((co_await io::ReadExactly(**stream, received)).ok()) EXPECT_EQ(received, sent);
    }
  }
  io::Task<void> UseDisk() {
    auto file = *server_.files().Open("/f", {.create = true, .write = true});
    const Bytes bytes(10000, std::byte{7});
    const ByteSpan part = bytes;
    for (int i = 0; i < 100; ++i) {
      (void)co_await file->WriteAt(i * 100, {&part, 1});
      Bytes back(bytes.size());
      (void)co_await file->ReadAt(i * 50, back);
    }
  }

  static constexpr Duration hours_ = std::chrono::hours(1);
  std::shared_ptr<Simulation> simulation_;
  std::shared_ptr<SimDisk> disk_;
  SimLoop server_;
  SimLoop client_;
};

TEST(Simulation, ASeedRepeatsItsHistory) {
  std::vector<uint64_t> traces;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    traces.push_back(SmallWorld(seed).Run());
    EXPECT_EQ(SmallWorld(seed).Run(), traces.back()) << "seed " << seed;
  }
  std::ranges::sort(traces);
  EXPECT_EQ(std::ranges::adjacent_find(traces), traces.end()) << "two seeds, one history";
}

// ---- network

class SimNetworkTest : public ::testing::Test {
 protected:
  void Connect() {
    listener_ = *server_.Listen({"10.0.0.1", 7000});
    gate_.Spawn([](SimNetworkTest* t) -> io::Task<void> {
      t->accepted_ = *co_await t->listener_->Accept();
    }(this));
    gate_.Spawn([](SimNetworkTest* t) -> io::Task<void> {
      t->dialled_ = *co_await t->client_.Connect({"10.0.0.1", 7000}, seconds(1));
    }(this));
    ASSERT_TRUE(simulation_->RunUntil([&] { return accepted_ && dialled_; }, seconds(1)));
  }
  // What becomes of reading one byte.
  struct Read {
    bool done = false;
    Result<size_t> result = InternalError("pending");
    std::byte byte{};
  };
  void StartRead(io::Stream& stream, Read* read) {
    gate_.Spawn([](io::Stream& stream, Read* read) -> io::Task<void> {
      read->result = co_await stream.ReadSome({&read->byte, 1});
      read->done = true;
    }(stream, read));
  }
  void Write(io::Stream& stream, Status* status) {
    gate_.Spawn([](io::Stream& stream, Status* status) -> io::Task<void> {
      const std::byte byte{9};
      const ByteSpan part(&byte, 1);
      *status = co_await stream.WriteAll({&part, 1});
    }(stream, status));
  }
  void TearDown() override {
    dialled_.reset();
    accepted_.reset();
    simulation_->RunFor(seconds(1));
  }

  std::shared_ptr<Simulation> simulation_ = std::make_shared<Simulation>(1);
  SimLoop server_{simulation_, {.address = "10.0.0.1"}};
  SimLoop client_{simulation_, {.address = "10.0.0.2"}};
  io::Gate gate_;
  std::unique_ptr<io::Listener> listener_;
  StreamPtr accepted_;
  StreamPtr dialled_;
};

TEST_F(SimNetworkTest, ACutLinkHoldsBytesBackUntilItIsJoined) {
  Connect();
  simulation_->network().Cut("10.0.0.2", "10.0.0.1");
  Read read;
  Status written = InternalError("pending");
  StartRead(*accepted_, &read);
  Write(*dialled_, &written);
  simulation_->RunFor(seconds(100));
  EXPECT_TRUE(written.ok());  // into the buffer
  EXPECT_FALSE(read.done);
  simulation_->network().Join("10.0.0.1", "10.0.0.2");
  simulation_->RunFor(seconds(1));
  ASSERT_TRUE(read.done && read.result.ok());
  EXPECT_EQ(read.byte, std::byte{9});
}

TEST_F(SimNetworkTest, AConnectOverACutLinkTimesOutOrEndsWithItsLoop) {
  listener_ = *server_.Listen({"10.0.0.1", 7000});
  simulation_->network().Cut("10.0.0.1", "10.0.0.2");
  Status late;
  Status stopped;
  const auto connect = [](SimLoop& loop, Duration timeout, Status* out) -> io::Task<void> {
    *out = (co_await loop.Connect({"10.0.0.1", 7000}, timeout)).status();
  };
  gate_.Spawn(connect(client_, milliseconds(50), &late));
  gate_.Spawn(connect(client_, seconds(50), &stopped));
  simulation_->RunFor(seconds(1));
  EXPECT_EQ(late.code(), StatusCode::kDeadline);
  EXPECT_TRUE(stopped.ok());
  client_.Stop();
  simulation_->RunFor(seconds(1));
  EXPECT_EQ(stopped.code(), StatusCode::kCancelled);
  EXPECT_EQ(gate_.running(), 0u);
}

TEST_F(SimNetworkTest, AHalfOpenConnectionTellsNobody) {
  Connect();
  simulation_->network().faults.half_open = 1;
  Read read;
  Status written;
  StartRead(*accepted_, &read);
  Write(*dialled_, &written);
  dialled_->Close();
  simulation_->RunFor(seconds(1000));
  EXPECT_FALSE(read.done);
  accepted_->Close();
  simulation_->RunFor(seconds(1));
  EXPECT_EQ(read.result.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(simulation_->network().injected[NetworkFault::kHalfOpen], 1u);
}

TEST_F(SimNetworkTest, APeerWithoutPowerIsFoundOutByWriting) {
  Connect();
  simulation_->network().LosePower("10.0.0.1");
  Read read;
  StartRead(*dialled_, &read);
  simulation_->RunFor(seconds(100));
  EXPECT_FALSE(read.done);
  Status written;
  Write(*dialled_, &written);
  simulation_->RunFor(seconds(1));
  EXPECT_EQ(read.result.status().code(), StatusCode::kUnavailable);
  // Its port is free for who comes after it.
  EXPECT_TRUE(server_.Listen({"10.0.0.1", 7000}).ok());
}

}  // namespace
}  // namespace ember::sim
