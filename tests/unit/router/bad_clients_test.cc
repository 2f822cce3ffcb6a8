// Whose fault failures are, in whole fleets over hours: a client whose requests fail wherever they
// go, each with another body, puts hardly anybody out; a replica that fails at what others can do
// goes out however many of those there are (D31, P6).
#include <gtest/gtest.h>

#include <random>

#include "router/fleet/replica_set.h"

namespace ember::router {
namespace {

using Reply = Health::Reply;

struct Traffic {
  const char* name;
  double good_per_s, bad_per_s;  // all replicas together
  int burst = 1;                 // bad ones that come at once
};

constexpr Traffic kTraffic[] = {{"half of all", 20, 20},
                                {"nine of ten", 4, 36},
                                {"nothing else", 0, 20},
                                {"nothing else, now and then", 0, 0.2},
                                {"some, now and then", 0.5, 0.2},
                                {"one in ten", 36, 4},
                                {"bursts among many good ones", 100, 4, 64},
                                {"bursts among few good ones", 4, 4, 64}};

class BadClientTest : public testing::Test {
 protected:
  static constexpr int kReplicas = 4;

  BadClientTest() {
    for (int i = 0; i < kReplicas; ++i) {
      EXPECT_TRUE(set_.Add({.id = std::to_string(i)}).ok());
      set_.ApplyProbe(*set_.endpoints()[static_cast<size_t>(i)], OkStatus(), now_);
    }
  }
  uint64_t Ejections(int replica) const {
    uint64_t all = 0;
    for (const uint64_t n : set_.endpoints()[static_cast<size_t>(replica)]->ejections) all += n;
    return all;
  }
  // One request at a usable replica drawn by chance; which.
  int Send(bool bad, Reply how, int broken) {
    int to = 0;
    do to = static_cast<int>(random_() % kReplicas);
    while (!set_.usable().test(static_cast<size_t>(to)));
    const bool fails = bad || to == broken;
    set_.ApplyReply(static_cast<ReplicaNumber>(to), fails ? how : Reply::kGood, "x", now_);
    return to;
  }
  // Until `time` has passed or, if there is one, the broken one is out. How often that was asked.
  int Run(const Traffic& traffic, Reply how, Duration time, int broken = -1) {
    std::bernoulli_distribution is_bad(traffic.bad_per_s / traffic.burst /
                                       (traffic.good_per_s + traffic.bad_per_s / traffic.burst));
    std::exponential_distribution<> pause_s(traffic.good_per_s + traffic.bad_per_s / traffic.burst);
    int asked = 0;
    TimePoint probe = now_;
    for (const TimePoint end = now_ + time; now_ < end;) {
      now_ += Duration(static_cast<int64_t>(pause_s(random_) * 1e9));
      for (; probe < now_; probe += milliseconds(250)) {
        for (const auto& e : set_.endpoints()) set_.ApplyProbe(*e, OkStatus(), probe);
      }
      const bool bad = is_bad(random_);
      for (int i = 0; i < (bad ? traffic.burst : 1); ++i) {
        asked += Send(bad, how, broken) == broken ? 1 : 0;
        if (broken >= 0 && !set_.usable().test(static_cast<size_t>(broken))) return asked;
      }
    }
    return asked;
  }

  std::mt19937 random_{7};
  TimePoint now_ = TimePoint() + seconds(1000);
  ReplicaSet set_{HealthOptions()};
};

TEST_F(BadClientTest, PutsHardlyAnybodyOut) {
  uint64_t total = 0;
  for (const Traffic& traffic : kTraffic) {
    for (const Reply how : {Reply::kServerError, Reply::kReset, Reply::kTimeout}) {
      std::vector<uint64_t> before;
      for (int i = 0; i < kReplicas; ++i) before.push_back(Ejections(i));
      now_ += seconds(36000);
      Run(traffic, how, seconds(3600));
      uint64_t out = 0;
      for (int i = 0; i < kReplicas; ++i) out += Ejections(i) - before[static_cast<size_t>(i)];
      total += out;
      EXPECT_LE(out, 8u) << traffic.name << " " << static_cast<int>(how);
    }
  }
  EXPECT_LE(total, 20u) << "in 24 hours";
}

TEST_F(BadClientTest, HidesNoBrokenReplica) {
  for (const Traffic& traffic : kTraffic) {
    if (traffic.good_per_s == 0) continue;
    for (const Reply how : {Reply::kServerError, Reply::kReset, Reply::kTimeout}) {
      now_ += seconds(36000);
      Run(traffic, how, seconds(600));
      const int asked = Run(traffic, how, seconds(3600), 0);
      EXPECT_FALSE(set_.usable().test(0)) << traffic.name;
      EXPECT_LE(asked, 200) << traffic.name;
      now_ += seconds(100);
      Run(traffic, how, seconds(600));
    }
  }
}

}  // namespace
}  // namespace ember::router
