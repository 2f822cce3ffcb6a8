// What a client does on its own, over hours: parts of it in a simulation.
#include <gtest/gtest.h>

#include "client/store_client/membership.h"
#include "tests/sim/seeds.h"
#include "tests/sim/sim_loop.h"
#include "tests/sim/sim_network.h"

namespace ember::sim {
namespace {

// D2, for the store: an outage may last, and whoever waits for its end asks at a steady pace.
TEST(ClientSim, AnOutageIsAskedAboutAtASteadyPace) {
  ForEachSeed(4, [](uint64_t seed) {
    auto simulation = std::make_shared<Simulation>(seed);
    SimLoop loop(simulation, {.address = "10.0.0.2"});
    SimLoop host(simulation, {.address = "10.0.0.1"});
    const auto listener = host.Listen({"10.0.0.1", 7101});
    ASSERT_TRUE(listener.ok());
    simulation->network().faults.refused = 1;
    const StoreClientOptions options{.seeds = {{"10.0.0.1", 7101}}};
    Membership membership(loop, options, [] {});
    loop.Post([&] { membership.Start(); });
    const uint64_t& asked = simulation->network().injected[NetworkFault::kRefused];
    const TimePoint end = simulation->Now() + std::chrono::hours(1);
    constexpr uint64_t kFourASecond = 4 * 3600;
    simulation->RunUntil([&] { return simulation->Now() >= end || asked > 2 * kFourASecond; },
                         std::chrono::hours(2));
    EXPECT_GT(asked, kFourASecond / 2);
    EXPECT_LT(asked, kFourASecond + 100);
    bool closed = false;
    io::Gate gate;
    const auto close = [&]() -> io::Task<void> {
      co_await membership.Close();
      closed = true;
    };
    loop.Post([&] { gate.Spawn(close()); });
    EXPECT_TRUE(simulation->RunUntil([&] { return closed; }, std::chrono::minutes(1)));
  });
}

}  // namespace
}  // namespace ember::sim
