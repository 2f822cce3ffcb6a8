// ember-trace's parts: the replay against a naive LRU, the bound against brute force.
#include "kvstore/tools/trace_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <list>
#include <map>
#include <set>

#include "kvstore/engine/eviction_policy.h"
#include "kvstore/tools/hit_curve.h"
#include "proto/base/random.h"

namespace ember::kv {
namespace {

using ::testing::HasSubstr;

// Conversations that take turns: each request repeats its conversation and adds to it. Some end
// after one turn.
RequestTrace Conversations(uint64_t seed, int requests) {
  RequestTrace trace;
  trace.name = "conversations";
  SeededRandom random(seed);
  std::vector<std::vector<uint32_t>> open;
  uint32_t blocks = 1;  // block 0 heads them all
  for (int i = 0; i < requests; ++i) {
    if (open.size() < 30 || random.Next() % 2 == 0) open.push_back({0});
    const size_t which = random.Next() % open.size();
    for (uint64_t n = 1 + random.Next() % 8; n > 0; --n) open[which].push_back(blocks++);
    trace.Add(open[which]);
    if (random.Next() % 3 == 0) open.erase(open.begin() + static_cast<ptrdiff_t>(which));
  }
  return trace;
}

double NaiveLru(const RequestTrace& trace, size_t capacity) {
  std::list<uint32_t> newest_last;
  uint64_t hits = 0;
  auto has = [&](uint32_t b) { return std::ranges::find(newest_last, b) != newest_last.end(); };
  for (const auto& request : trace.requests) {
    for (uint32_t block : request) {
      if (!has(block)) break;
      ++hits;
    }
    for (uint32_t block : request) {
      newest_last.remove(block);
      if (newest_last.size() == capacity) newest_last.pop_front();
      newest_last.push_back(block);
    }
  }
  return static_cast<double>(hits) / static_cast<double>(trace.lookups);
}

// The most hits that any choice of what to keep can give, by trying all.
int BestPossible(const std::vector<uint32_t>& sequence, size_t at, std::set<uint32_t> kept,
                 size_t capacity, std::map<std::pair<size_t, std::set<uint32_t>>, int>* known) {
  if (at == sequence.size()) return 0;
  const std::pair state(at, kept);
  if (auto it = known->find(state); it != known->end()) return it->second;
  const int hit = kept.insert(sequence[at]).second ? 0 : 1;
  int best = 0;
  for (uint32_t dropped : kept) {
    std::set<uint32_t> rest = kept;
    if (kept.size() > capacity) rest.erase(dropped);
    best = std::max(best, BestPossible(sequence, at + 1, rest, capacity, known));
  }
  return (*known)[state] = hit + best;
}

TEST(TraceReplayTest, LruAgreesWithANaiveOne) {
  const RequestTrace trace = Conversations(1, 400);
  for (uint32_t capacity : {1u, 7u, 50u, 200u, 600u, trace.distinct_blocks}) {
    EXPECT_DOUBLE_EQ(ReplayHitRatio(trace, "lru", capacity), NaiveLru(trace, capacity)) << capacity;
  }
}

TEST(TraceReplayTest, TheBoundIsTheBestPossible) {
  SeededRandom random(4);
  for (int round = 0; round < 30; ++round) {
    RequestTrace trace;
    std::vector<uint32_t> sequence;
    for (int i = 0; i < 14; ++i) sequence.push_back(static_cast<uint32_t>(random.Next() % 6));
    trace.Add(sequence);
    for (uint32_t capacity : {1u, 2u, 3u}) {
      std::map<std::pair<size_t, std::set<uint32_t>>, int> known;
      EXPECT_DOUBLE_EQ(BeladyHitRatio(trace, capacity),
                       BestPossible(sequence, 0, {}, capacity, &known) / 14.0);
    }
  }
}

TEST(TraceReplayTest, NoPolicyPassesTheBoundAndTheDefaultIsNeverFarFromTheBest) {
  const RequestTrace trace = Conversations(2, 4000);
  const uint32_t capacity = trace.distinct_blocks / 10;
  const double bound = BeladyHitRatio(trace, capacity);
  std::map<std::string_view, double> ratios;
  for (std::string_view policy : EvictionPolicyNames()) {
    ratios[policy] = ReplayHitRatio(trace, policy, capacity);
    EXPECT_LE(ratios[policy], bound) << policy;
    EXPECT_GT(ratios[policy], bound / 4) << policy;
    // With room for all, every policy keeps all.
    EXPECT_DOUBLE_EQ(ReplayHitRatio(trace, policy, trace.distinct_blocks),
                     BeladyHitRatio(trace, trace.distinct_blocks));
  }
  for (const auto& [policy, ratio] : ratios) {
    EXPECT_GE(ratios[kDefaultEviction], 0.95 * ratio) << policy;
  }
}

class TraceFileTest : public ::testing::Test {
 protected:
  ~TraceFileTest() override { std::remove(path_.c_str()); }
  Result<RequestTrace> Read(const std::string& text) {
    std::ofstream(path_) << text;
    return ReadRequestTrace(path_);
  }
  const std::string path_ = ::testing::TempDir() + "trace" + std::to_string(::getpid()) + ".jsonl";
};

TEST_F(TraceFileTest, ReadsOneObjectALine) {
  auto trace = Read(
      "{\"timestamp\": 1, \"input_length\": 1000, \"output_length\": 5, \"hash_ids\": [70, 90]}\n"
      "\n"
      "{\"hash_ids\": []}\n"
      "{\"hash_ids\": [70, 11, 12]}");
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  EXPECT_THAT(trace->requests,
              ::testing::ElementsAre(std::vector<uint32_t>{0, 1}, std::vector<uint32_t>{},
                                     std::vector<uint32_t>{0, 2, 3}));
  EXPECT_EQ(trace->distinct_blocks, 4u);
  EXPECT_EQ(trace->lookups, 5u);
}

TEST_F(TraceFileTest, SaysWhichLineIsWrong) {
  for (const char* bad :
       {"{", "{\"hash_ids\": 5}", "{\"hash_ids\": [-1]}", "{\"hash_ids\": [\"a\"]}", "{}", "[]"}) {
    auto trace = Read(std::string("{\"hash_ids\": [1]}\n") + bad + "\n");
    ASSERT_FALSE(trace.ok()) << bad;
    EXPECT_THAT(std::string(trace.status().message()), HasSubstr(":2")) << bad;
  }
  EXPECT_FALSE(Read("").ok());
  EXPECT_EQ(ReadRequestTrace("/nonexistent/trace").status().code(), StatusCode::kNotFound);
}

TEST(HitCurveTest, IsPrintedInThreeForms) {
  RequestTrace trace = Conversations(3, 200);
  trace.name = "a<b>\"&.jsonl";
  const HitCurve curve = MeasureHitCurve(trace, {0.0001, 10, 100}, {"lru", "chain"});
  ASSERT_EQ(curve.points.size(), 3u);
  EXPECT_EQ(curve.points[0].blocks, 1u);
  EXPECT_EQ(curve.points[2].blocks, trace.distinct_blocks);
  EXPECT_THAT(TableOf(curve), HasSubstr("(100.0%)"));
  EXPECT_THAT(JsonOf({curve}), HasSubstr("\"trace\": \"a<b>\\\"&.jsonl\""));
  EXPECT_THAT(JsonOf({curve}), HasSubstr("\"chain\": 0."));
  EXPECT_THAT(SvgOf({curve, curve}), HasSubstr("a&lt;b>"));
  EXPECT_THAT(SvgOf({curve, curve}), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace ember::kv
