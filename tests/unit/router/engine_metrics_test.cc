// What engines say of their load, and what is made of it (D25).
#include "router/fleet/engine_metrics.h"

#include <gtest/gtest.h>

#include "proto/base/random.h"
#include "router/fleet/replica_set.h"

namespace ember::router {
namespace {

TEST(EngineMetrics, VllmWithRanks) {
  const auto ranks = ReadEngineMetrics(R"(# HELP vllm:num_requests_running Number of requests
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a \"}, b"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
vllm:num_requests_waiting{engine="0",model_name="m"} 7.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 70.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="573"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="None"} 1.0
vllm:request_success_total{engine="0"} 1e9
)");
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks.at(0).running, 3u);
  EXPECT_EQ(ranks.at(0).waiting, 7u);
  EXPECT_DOUBLE_EQ(ranks.at(0).kv_usage, 0.25);
  EXPECT_EQ(ranks.at(0).capacity_tokens, 573u * 16);
  EXPECT_EQ(ranks.at(1).running, 1u);
  EXPECT_EQ(ranks.at(1).capacity_tokens, 0u);
  EXPECT_EQ(SumOf(ranks).running, 4u);
  EXPECT_DOUBLE_EQ(SumOf(ranks).kv_usage, 0.125);
}

TEST(EngineMetrics, SglangAndLlamaCpp) {
  const auto sglang = ReadEngineMetrics(
      "sglang:num_running_reqs{model_name=\"m\",dp_rank=\"3\"} 8\n"
      "sglang:num_queue_reqs{model_name=\"m\",dp_rank=\"3\"} 4 1700000000\r\n"
      "sglang:token_usage{model_name=\"m\",dp_rank=\"3\"} 0.52\n"
      "sglang:max_total_num_tokens{dp_rank=\"3\"} 1000000\n");
  ASSERT_EQ(sglang.size(), 1u);
  EXPECT_EQ(sglang.at(3).running, 8u);
  EXPECT_EQ(sglang.at(3).waiting, 4u);
  EXPECT_DOUBLE_EQ(sglang.at(3).kv_usage, 0.52);
  EXPECT_EQ(sglang.at(3).capacity_tokens, 1'000'000u);
  const auto llama = ReadEngineMetrics(
      "llamacpp:requests_processing 2\nllamacpp:requests_deferred 5\n"
      "llamacpp:kv_cache_usage_ratio 0.5");
  EXPECT_EQ(llama.at(0).running, 2u);
  EXPECT_EQ(llama.at(0).waiting, 5u);
}

TEST(EngineMetrics, TextOfAnotherKindSaysNothing) {
  for (const char* text :
       {"", "\n\n", "<html>vllm:num_requests_running 3</html>", "process_cpu_seconds_total 3",
        "vllm:num_requests_waiting 3\n", "vllm:num_requests_running", "vllm:num_requests_running x",
        "vllm:num_requests_running{engine=\"0 3\n", "vllm:num_requests_running -1",
        "vllm:num_requests_running nan", "vllm:num_requests_running inf"}) {
    EXPECT_TRUE(ReadEngineMetrics(text).empty()) << text;
  }
}

TEST(EngineMetrics, WhatIsOutOfRangeIsCut) {
  std::string text =
      "vllm:num_requests_running 1e300\nvllm:kv_cache_usage_perc 17\n"
      "vllm:cache_config_info{block_size=\"4294967295\",num_gpu_blocks=\"4294967295\"} 1\n";
  const auto load = ReadEngineMetrics(text).at(0);
  EXPECT_EQ(load.running, 1'000'000u);
  EXPECT_EQ(load.kv_usage, 1);
  EXPECT_LE(load.capacity_tokens, uint64_t{1} << 40);
  for (int i = 0; i < 10000; ++i) {
    text += "vllm:num_requests_running{engine=\"" + std::to_string(i) + "\"} 1\n";
  }
  EXPECT_LE(ReadEngineMetrics(text).size(), 256u);
}

TEST(EngineMetrics, AnyBytesAreSafe) {
  const std::string seed =
      "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3.0\n"
      "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"573\"} 1.0\n";
  SeededRandom random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string text = seed.substr(0, random.Next() % seed.size());
    for (int edits = 0; edits < 3 && !text.empty(); ++edits) {
      text[random.Next() % text.size()] = "\"\\{}=, \n\0e9"[random.Next() % 12];
    }
    for (const auto& [rank, load] : ReadEngineMetrics(text)) EXPECT_LE(load.kv_usage, 1);
  }
}

TEST(EngineLoad, OnlyWhatExceedsOursIsOthers) {
  const TimePoint now{};
  ReplicaSet set{HealthOptions()};
  ASSERT_TRUE(set.Add({.id = "a"}).ok());
  auto one = set.Start(0, 100, 0, now), two = set.Start(0, 50, 0, now);
  const Replica& view = set.at(0).view;
  const auto load = [&] { return view.in_flight + view.load.running + view.load.waiting; };
  // The engine's figures are older than our requests: a poll never takes them off.
  set.ApplyEngineLoad(0, {.running = 0, .waiting = 0}, now + seconds(1));
  EXPECT_EQ(load(), 2u);
  set.ApplyEngineLoad(0, {.running = 3, .waiting = 4, .kv_usage = 0.5, .capacity_tokens = 1000},
                      now + seconds(2));
  EXPECT_EQ(load(), 7u) << "five are of others, ours are not counted twice";
  EXPECT_EQ(set.at(0).reported().running, 3u);
  EXPECT_EQ(view.load.kv_usage, 0.5);
  EXPECT_EQ(view.cache.capacity_tokens, 1000u);
  one = {};
  EXPECT_EQ(load(), 6u);
  set.ForgetEngineLoad(0);
  EXPECT_EQ(load(), 1u);
}

TEST(EngineLoad, ACacheThatFillsOrEmptiesIsASignOfLifeAndACountOfWhoWaitsIsNone) {
  ReplicaSet set{HealthOptions()};
  ASSERT_TRUE(set.Add({.id = "a"}).ok());
  const auto alive_at = [&](double kv_usage, uint32_t waiting, int ms) {
    const TimePoint now = TimePoint() + milliseconds(ms);
    set.ApplyEngineLoad(0, {.waiting = waiting, .kv_usage = kv_usage}, now);
    return ToMilliseconds(set.at(0).endpoint->health.alive_at() - TimePoint());
  };
  EXPECT_EQ(alive_at(0.5, 1, 100), 0) << "the first one shows no change";
  EXPECT_EQ(alive_at(0.5, 7, 200), 0);
  EXPECT_EQ(alive_at(0.4, 7, 300), 300);
}

}  // namespace
}  // namespace ember::router
