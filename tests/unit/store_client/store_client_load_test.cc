// C25: many threads on one client, payloads checked against the oracle, nodes dying under them.
#include <gtest/gtest.h>

#include "tests/unit/store_client/client_fixture.h"

namespace ember::testing {
namespace {

constexpr int kThreads = 96;
constexpr int kRounds = 12;

class LoadTest : public ::testing::TestWithParam<io::Backend>, public ClientFixture {
 protected:
  LoadTest() : ClientFixture(GetParam()) {}
  void SetUp() override {
    if (!Available(GetParam())) GTEST_SKIP() << "the system has no such back end";
  }

  // Every thread puts a chain of its own, and loads it and its neighbour's, again and again.
  void RunThreads(StoreClient* client, bool complete) {
    std::atomic<size_t> wrong = 0, loaded = 0, missed = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        const Oracle own(t, 8, 3000 + 17 * t);
        const Oracle neighbours((t + 1) % kThreads, 8, 3000 + 17 * ((t + 1) % kThreads));
        for (int round = 0; round < kRounds; ++round) {
          for (const PutOutcome& outcome : own.Put(*client, seconds(60))) {
            if (complete && outcome.copies == 0) ++missed;
          }
          const MatchResult match = client->Match(own.refs(), seconds(60));
          if (complete && match.usable != own.size()) ++missed;
          for (const Oracle* chain : {&own, &neighbours}) {
            const auto load = chain->Get(*client, seconds(60));
            wrong += load.wrong;
            loaded += load.result.usable;
            if (complete && chain == &own && load.result.usable != own.size()) ++missed;
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(missed, 0u);
    EXPECT_GE(loaded, complete ? size_t{kThreads} * kRounds * 8 : 1);
  }
};
INSTANTIATE_TEST_SUITE_P(BackEnds, LoadTest,
                         ::testing::Values(io::Backend::kEpoll, io::Backend::kUring), BackendName);

TEST_P(LoadTest, NinetySixThreadsReadOnlyWhatWasPut) {
  StartNodes(3);
  RunThreads(Connect().get(), /*complete=*/true);
}

TEST_P(LoadTest, WithOneNodeKilledUnderLoadTheOtherCopiesServeEverything) {
  StartNodes(3);
  const auto client = Connect();
  std::thread killer([&] {
    EXPECT_TRUE(Eventually([&] { return nodes[1]->payloads_sent > 500; }));
    nodes[1]->Stop();
  });
  RunThreads(client.get(), /*complete=*/true);
  killer.join();
}

// Nodes die and come back, with and without their memory: there may be misses, never wrong bytes.
TEST_P(LoadTest, NodesThatComeAndGoNeverMakeWrongBytes) {
  StartNodes(3);
  auto options = Options();
  options.back_off_max = milliseconds(200);
  const auto client = Connect(options);
  std::atomic<bool> stop = false;
  std::thread killer([&] {
    for (size_t i = 0; !stop; ++i) {
      ScriptedNode& victim = *nodes[i % nodes.size()];
      victim.Stop();
      LetTimePass(milliseconds(30));
      victim.Start(/*keep_segments=*/i % 2 == 0);
      LetTimePass(milliseconds(60));
    }
  });
  RunThreads(client.get(), /*complete=*/false);
  stop = true;
  killer.join();
}

}  // namespace
}  // namespace ember::testing
