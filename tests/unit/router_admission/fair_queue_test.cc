#include "router/admission/fair_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "router/admission/drain_rate.h"

namespace ember::router {
namespace {

using Ticket = FairQueue::Ticket;

bool Anybody(Ticket) { return true; }
bool AnyShare(const std::string&) { return true; }
// A share that is one tenant's.
FairQueue::Whose Of(const std::string& share) { return {share, ""}; }

TEST(FairQueue, OneTenantIsServedInItsOrder) {
  FairQueue queue;
  std::vector<Ticket> in, out;
  for (int i = 0; i < 5; ++i) in.push_back(queue.Push(Of("a"), 1));
  while (const auto t = queue.Pop(Anybody)) out.push_back(*t);
  EXPECT_EQ(out, in);
  EXPECT_EQ(queue.size(), 0u);
  EXPECT_EQ(queue.shares(), 0u) << "who waits no more leaves nothing behind";
}

TEST(FairQueue, AFloodDoesNotHoldBackAnotherTenant) {
  FairQueue queue;
  for (int i = 0; i < 1000; ++i) queue.Push(Of("flood"), 4);
  const Ticket one = queue.Push(Of("one"), 4);
  int before = 0;
  while (queue.Pop(Anybody) != one) ++before;
  EXPECT_LE(before, 8);
}

// Who has one request at a time waits for one of each other share, however many these have.
TEST(FairQueue, SmallRequestsTakeTurnsOneByOne) {
  for (const int heavy : {1, 3}) {
    FairQueue queue;
    for (int i = 0; i < 1000; ++i) queue.Push(Of("heavy " + std::to_string(i % heavy)), 1);
    for (int round = 0; round < 50; ++round) {
      queue.Pop(Anybody);
      const Ticket mine = queue.Push(Of("light"), 1);
      int before = 0;
      while (queue.Pop(Anybody) != mine) ++before;
      EXPECT_LE(before, heavy);
    }
  }
}

TEST(FairQueue, ALongRequestIsPassedByAsMuchAsItCosts) {
  for (const uint32_t cost : {40u, FairQueue::kMaxCost, 10 * FairQueue::kMaxCost}) {
    FairQueue queue;
    const Ticket length = queue.Push(Of("long"), cost);
    for (int i = 0; i < 1000; ++i) queue.Push(Of("small"), 1);
    uint32_t before = 0;
    while (queue.Pop(Anybody) != length) ++before;
    EXPECT_NEAR(before, std::min(cost, FairQueue::kMaxCost), 1);
  }
}

TEST(FairQueue, SharesAreOfCostNotOfRequests) {
  FairQueue queue;
  std::map<Ticket, std::pair<char, uint32_t>> what;
  for (int i = 0; i < 4000; ++i) what[queue.Push(Of("small"), 1)] = {'s', 1};
  for (int i = 0; i < 400; ++i) what[queue.Push(Of("large"), 40)] = {'l', 40};
  std::map<char, uint32_t> spent;
  for (int i = 0; i < 2000; ++i) {
    const auto& [tenant, cost] = what[*queue.Pop(Anybody)];
    spent[tenant] += cost;
  }
  EXPECT_NEAR(spent['s'], spent['l'], 0.05 * spent['s'] + FairQueue::kMaxCost);
}

// However many shares there are, and whoever waited for what before.
TEST(FairQueue, NoShareGathersMoreThanItsTurns) {
  FairQueue queue;
  std::map<Ticket, std::pair<std::string, uint32_t>> what;
  const auto push = [&](const std::string& share, uint32_t cost) {
    for (int i = 0; i < 3000; ++i) what[queue.Push(Of(share), cost)] = {share, cost};
  };
  const auto spent_by = [&](int pops) {
    std::map<std::string, uint32_t> spent;
    for (int i = 0; i < pops; ++i) {
      const auto& [share, cost] = what[*queue.Pop(Anybody)];
      spent[share] += cost;
    }
    return spent;
  };
  for (const char* share : {"a", "b", "c"}) push(share, 10);
  for (const auto& [share, spent] : spent_by(600)) EXPECT_NEAR(spent, 2000, 10) << share;
  push("small", 1);
  push("also small", 1);
  // Of 23 requests one of each large share and ten of each small one.
  for (const auto& [share, spent] : spent_by(100 * 23)) EXPECT_NEAR(spent, 1000, 50) << share;
}

TEST(FairQueue, WhoMayNotGoIsPassedOver) {
  FairQueue queue;
  const Ticket pinned = queue.Push(Of("a"), 1);
  const Ticket behind = queue.Push(Of("a"), 1);
  const Ticket other = queue.Push(Of("b"), 1);
  const auto not_pinned = [&](Ticket t) { return t != pinned; };
  EXPECT_EQ((std::set<Ticket>{*queue.Pop(not_pinned), *queue.Pop(not_pinned)}),
            (std::set<Ticket>{behind, other}));
  EXPECT_FALSE(queue.Pop(not_pinned));
  EXPECT_EQ(queue.Pop(Anybody), pinned);
}

TEST(FairQueue, TicketsMayLeave) {
  FairQueue queue;
  const Ticket a = queue.Push(Of("a"), 1), b = queue.Push(Of("a"), 1);
  queue.Remove(a);
  queue.Remove(a);
  queue.Remove(12345);
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(queue.Pop(Anybody), b);
}

TEST(FairQueue, TheNewestOfWhoWaitsWithMostMakesRoomForThoseWithFewer) {
  FairQueue queue;
  queue.Push(Of("many"), 1);
  queue.Push(Of("many"), 1);
  const Ticket newest = queue.Push(Of("many"), 1);
  queue.Push(Of("some"), 1);
  EXPECT_FALSE(queue.PushOutFor(Of("many"), AnyShare)) << "not for its own";
  EXPECT_FALSE(queue.PushOutFor(Of("few"), [](const std::string& t) { return t == "some"; }));
  EXPECT_EQ(queue.PushOutFor(Of("some"), AnyShare), newest);
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_FALSE(queue.PushOutFor(Of("some"), AnyShare)) << "they would only change places";
  EXPECT_TRUE(queue.PushOutFor(Of("few"), AnyShare));
}

TEST(FairQueue, InventedTenantsGainNothingTogether) {
  FairQueue queue;
  std::vector<Ticket> invented;
  for (int i = 0; i < 100; ++i) invented.push_back(queue.Push({"one", std::to_string(i)}, 4));
  const Ticket other = queue.Push(Of("other"), 4);
  EXPECT_EQ(queue.PushOutFor(Of("other"), AnyShare), invented.back());
  EXPECT_EQ(queue.PushOutFor(Of("third"), AnyShare), invented[98]) << "not who waits alone";
  EXPECT_FALSE(queue.PushOutFor({"one", "new"}, AnyShare)) << "not even one of their own";
  int before = 0;
  while (queue.Pop(Anybody) != other) ++before;
  EXPECT_LE(before, 4) << "they take turns with others as one";
}

TEST(FairQueue, TenantsOfOneShareTakeTurnsAndPushEachOtherOut) {
  FairQueue queue;
  std::vector<Ticket> flood;
  for (int i = 0; i < 5; ++i) flood.push_back(queue.Push({"one", "flood"}, 1));
  EXPECT_EQ(queue.PushOutFor({"one", "mine"}, AnyShare), flood[4]);
  const Ticket mine = queue.Push({"one", "mine"}, 1);
  EXPECT_FALSE(queue.PushOutFor({"one", "flood"}, AnyShare));
  EXPECT_FALSE(queue.PushOutFor({"one", "third"}, [](const std::string&) { return false; }));
  EXPECT_EQ((std::vector{*queue.Pop(Anybody), *queue.Pop(Anybody), *queue.Pop(Anybody)}),
            (std::vector{flood[0], mine, flood[1]}));
  queue.Remove(flood[2]);
  EXPECT_EQ(queue.Pop(Anybody), flood[3]);
  EXPECT_EQ(queue.shares(), 0u);
}

TEST(FairQueue, EveryCostIsServedOnce) {
  FairQueue queue;
  std::set<Ticket> in, out;
  for (uint32_t i = 0; i < 2000; ++i)
    in.insert(queue.Push(Of(std::to_string(i % 7)), i * 37 % 100));
  while (const auto t = queue.Pop(Anybody)) EXPECT_TRUE(out.insert(*t).second);
  EXPECT_EQ(out, in);
}

TEST(DrainRate, SaysWhenToComeAgain) {
  const TimePoint start = TimePoint() + seconds(1000);
  DrainRate rate;
  EXPECT_EQ(rate.SecondsFor(1, start), 30) << "nothing drains";
  for (int i = 0; i < 1000; ++i) rate.OnEnd(start + milliseconds(100) * i);  // 10 a second
  const TimePoint now = start + seconds(100);
  EXPECT_NEAR(rate.SecondsFor(100, now), 10, 1);
  EXPECT_EQ(rate.SecondsFor(1, now), 1);
  EXPECT_EQ(rate.SecondsFor(100000, now), 30);
  EXPECT_GT(rate.SecondsFor(100, now + seconds(10)), 20) << "what was long ago says little";
}

TEST(DrainRate, IdleTimeBeforeABurstDoesNotCount) {
  const TimePoint burst = TimePoint() + seconds(100);
  DrainRate rate;
  rate.OnEnd(burst - seconds(20));
  rate.OnFirstWaiter(burst);
  EXPECT_EQ(rate.SecondsFor(10, burst), 10) << "nothing is known";
  EXPECT_EQ(rate.SecondsFor(10, burst + seconds(4)), 30) << "none has ended";
  for (int i = 1; i <= 10; ++i) rate.OnEnd(burst + milliseconds(200) * i);  // 5 a second
  EXPECT_NEAR(rate.SecondsFor(11, burst + seconds(2)), 2, 1);
  // Then some whose first replies end all at once, after which none does.
  rate.OnFirstWaiter(burst + seconds(3));
  for (int i = 0; i < 4; ++i) rate.OnEnd(burst + seconds(3));
  EXPECT_GE(rate.SecondsFor(11, burst + seconds(3)), 3);
  EXPECT_GE(rate.SecondsFor(11, burst + seconds(30)), 29);
}

}  // namespace
}  // namespace ember::router
