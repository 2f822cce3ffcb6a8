// Lookups from many threads while the writer writes. Under ThreadSanitizer this is the proof that
// there is no race; the assertions are what holds at every moment.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "router/index/reader_epochs.h"
#include "tests/unit/router/index_fixture.h"
#include "tests/unit/support/sanitized.h"

namespace ember::router {
namespace {

constexpr int kReaders = 64;

// Runs `read(thread number, random)` over and over in the readers while `write` runs here.
template <typename Read, typename Write>
void WhileReading(const Read& read, const Write& write) {
  std::atomic<bool> stop{false};
  std::atomic<int> begun{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < kReaders; ++t) {
    readers.emplace_back([&, t] {
      SeededRandom random(static_cast<uint64_t>(t));
      do {
        read(t, random);
        begun.fetch_add(1);
        std::this_thread::yield();  // on few cores the writer would wait for all of them
      } while (!stop.load());
    });
  }
  while (begun.load() < kReaders) std::this_thread::yield();
  write();
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
}

TEST(IndexThreads, LookupsSeeOnlyWhatIsTrueWhileEventsStorm) {  // A18
  PrefixIndex index(kRoomyIndex);
  constexpr HolderId kKeeper = 0;
  AddReplicas(index, 8);
  const BlockChain kept = NumberedChain(1, 200);
  StoreChain(index, kKeeper, kept);
  // Holder h only ever has branches of its own number, on the common trunk.
  constexpr uint64_t kOwn = 50;
  std::vector<BlockChain> chains;
  for (uint64_t n = 0; n < 8 * kOwn; ++n) {
    chains.push_back(Branch(BlockChain(kept.begin(), kept.begin() + 100), n, 60));
  }
  const auto own = [&](uint64_t h, uint64_t n) -> const BlockChain& {
    return chains[h * kOwn + n % kOwn];
  };
  const BlockChain strange = NumberedChain(999, 10);
  std::atomic<uint64_t> wrong{0};
  const auto read = [&](int t, SeededRandom& random) {
    const PrefixLookup all = index.Lookup(kept);
    if (all.Of(kKeeper).device_blocks != 200) ++wrong;
    const uint64_t h = 1 + random.Next() % 7;
    const BlockChain& asked = own(h, random.Next());
    for (const HolderMatch& match : index.Lookup(asked).holders) {
      if (match.holder != h && match.any_tier_blocks > 100) ++wrong;
      if (match.device_blocks > match.any_tier_blocks) ++wrong;
    }
    if (!index.Lookup(strange).holders.empty()) ++wrong;
    const GroupChain groups[] = {{kept, 16, 0}, {kept, 16, 64}};
    if (t % 8 == 0 && index.LookupGroups(groups).front().device_tokens != 3200) ++wrong;
  };
  constexpr int kSteps = 2000;
  WhileReading(read, [&] {
    SeededRandom random(77);
    for (int step = 0; step < kSteps; ++step) {
      const auto h = static_cast<HolderId>(1 + random.Next() % 7);
      const BlockChain& chain = own(h, random.Next());
      switch (random.Next() % 8) {
        case 0:
          RemoveChain(index, h, chain);
          break;
        case 1:
          index.ClearHolder(h);
          EXPECT_EQ(index.Lookup(chain).Of(h).any_tier_blocks, 0u) << "at once";
          break;
        case 2:
          index.Settle(h, index.Presume(h, chain));
          break;
        default:
          StoreChain(index, h, chain, static_cast<HolderTier>(random.Next() % 3));
      }
    }
  });
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_EQ(index.refusals(), 0u);
}

TEST(IndexThreads, LookupsAreTrueWhileMemoryIsShortAndTablesGrow) {
  PrefixIndex index(kSmallIndex);
  AddReplicas(index, 4);
  std::atomic<uint64_t> wrong{0};
  // Chain n is only ever held by holder n % 4.
  const auto read = [&](int, SeededRandom& random) {
    const uint64_t n = random.Next() % 4000;
    for (const HolderMatch& match : index.Lookup(NumberedChain(n, 50)).holders) {
      if (match.holder != n % 4) ++wrong;
    }
  };
  const uint64_t rounds = EMBER_TEST_SANITIZED ? 5000 : 10'000;
  WhileReading(read, [&] {
    for (uint64_t round = 0; round < rounds; ++round) {
      const uint64_t n = round % 4000;
      StoreChain(index, static_cast<HolderId>(n % 4), NumberedChain(n, 50));
      EXPECT_LE(index.bytes(), kSmallIndex.max_bytes);
    }
  });
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_GT(index.evictions(), 0u);
}

TEST(ReaderEpochs, NothingIsFreeWhileAReaderWhoMaySeeItStays) {
  ReaderEpochs epochs;
  const ReaderEpochs::Ticket before = epochs.Retire();
  EXPECT_TRUE(epochs.Passed(before));
  std::optional<ReaderEpochs::Ticket> during;
  {
    const ReaderEpochs::Stay stay = epochs.Enter();
    ASSERT_TRUE(stay);
    EXPECT_TRUE(epochs.Passed(before)) << "it began after that";
    during = epochs.Retire();
    EXPECT_FALSE(epochs.Passed(*during));
    const ReaderEpochs::Stay later = epochs.Enter();
    EXPECT_FALSE(epochs.Passed(*during));
  }
  EXPECT_TRUE(epochs.Passed(*during));
}

}  // namespace
}  // namespace ember::router
