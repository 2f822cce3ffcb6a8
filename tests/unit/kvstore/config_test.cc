#include "kvstore/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ember::kv {
namespace {

using ::testing::HasSubstr;

ParsedConfig Parse(std::vector<const char*> flags) {
  flags.insert(flags.begin(), "ember-store");
  return ParseConfig(static_cast<int>(flags.size()), flags.data());
}

TEST(ConfigTest, ListensOnLoopbackOnlyUnlessTold) {
  const ParsedConfig parsed = Parse({});
  ASSERT_TRUE(parsed.config) << parsed.output;
  EXPECT_EQ(parsed.config->listen.ToString(), "127.0.0.1:7101");
  EXPECT_EQ(parsed.config->grpc->host, "127.0.0.1");
  EXPECT_EQ(parsed.config->admin->host, "127.0.0.1");
  EXPECT_EQ(parsed.config->memory_bytes, 512u << 20);
  EXPECT_EQ(parsed.config->max_segment_bytes, 64u << 20);
}

TEST(ConfigTest, ReadsEveryFlag) {
  const ParsedConfig parsed =
      Parse({"--node-id=s2", "--listen", "127.0.0.1:9", "--grpc=off", "--admin=[::1]:8",
             "--memory=1.5GiB", "--prealloc", "--max-segment=4MiB", "--io=epoll",
             "--log-level=warn", "--peers=s1=10.0.0.1:9,s2=127.0.0.1:9"});
  ASSERT_TRUE(parsed.config) << parsed.output;
  EXPECT_EQ(parsed.config->node_id, "s2");
  EXPECT_EQ(parsed.config->listen.port, 9);
  EXPECT_FALSE(parsed.config->grpc);
  EXPECT_EQ(parsed.config->admin->ToString(), "[::1]:8");
  EXPECT_EQ(parsed.config->memory_bytes, 3u << 29);
  EXPECT_TRUE(parsed.config->prealloc);
  EXPECT_EQ(parsed.config->max_segment_bytes, 4u << 20);
  EXPECT_EQ(parsed.config->backend, io::Backend::kEpoll);
  EXPECT_EQ(parsed.config->peers->members.size(), 2u);
}

TEST(ConfigTest, SharesItsMemoryOnlyWhenTold) {
  EXPECT_FALSE(Parse({}).config->shm_dir);
  EXPECT_FALSE(Parse({"--shm=off"}).config->shm_dir);
  EXPECT_EQ(Parse({"--shm=trusted"}).config->shm_dir.value_or("")[0], '/');
  EXPECT_EQ(Parse({"--shm=trusted", "--shm-dir=/x"}).config->shm_dir, "/x");
}

TEST(ConfigTest, ASmallMemoryLimitsTheSegment) {
  EXPECT_LT(Parse({"--memory=1MiB"}).config->max_segment_bytes, 1u << 20);
}

TEST(ConfigTest, EveryMistakeIsOneLineThatNamesTheFlag) {
  const std::pair<std::vector<const char*>, const char*> cases[] = {
      {{"--frobnicate"}, "--frobnicate"},
      {{"positional"}, "positional"},
      {{"--listen=nowhere"}, "--listen"},
      {{"--listen=127.0.0.1:70000"}, "--listen"},
      {{"--listen=::1:7101"}, "--listen"},
      {{"--grpc=x"}, "--grpc"},
      {{"--admin=:"}, "--admin"},
      {{"--memory=lots"}, "--memory"},
      {{"--memory=-1"}, "--memory"},
      {{"--memory=1e400"}, "--memory"},
      {{"--memory=1000KiB"}, "--memory"},
      {{"--memory=1MiB", "--max-segment=2MiB"}, "--max-segment"},
      {{"--memory=2MiB", "--shards=3"}, "--shards"},
      {{"--shards=0"}, "--shards"},
      {{"--data=/d"}, "--disk"},
      {{"--disk=1GiB"}, "--data"},
      {{"--data=/d", "--disk=1MiB"}, "--disk"},
      {{"--data=/d", "--disk=1GiB", "--disk-write=never"}, "--disk-write"},
      {{"--ttl=soon"}, "--ttl"},
      {{"--namespace-ttl=xyz=1h"}, "--namespace-ttl"},
      {{"--shm=always"}, "--shm"},
      {{"--shm-dir=/run"}, "--shm-dir"},
      {{"--shm=trusted", "--shm-dir=here"}, "--shm-dir"},
      {{"--max-segment=65MiB"}, "--max-segment"},
      {{"--max-segment=0"}, "--max-segment"},
      {{"--io=magic"}, "--io"},
      {{"--log-level=loud"}, "--log-level"},
      {{"--node-id=two words"}, "--node-id"},
      {{"--node-id="}, "--node-id"},
      {{"--listen=0.0.0.0:7101"}, "--peers"},
      {{"--peers=s2=127.0.0.1:7101"}, "--node-id=s1"},
      {{"--peers=s1=127.0.0.1:7102"}, "--listen"},
      {{"--peers=s1"}, "--peers"},
      {{"--peers=s1=127.0.0.1:7101,s1=127.0.0.1:7102"}, "--peers"},
  };
  for (const auto& [flags, want] : cases) {
    const ParsedConfig parsed = Parse(flags);
    EXPECT_FALSE(parsed.config) << flags[0];
    EXPECT_EQ(parsed.exit_code, 2) << flags[0];
    EXPECT_THAT(parsed.output, HasSubstr(want));
    EXPECT_EQ(parsed.output.find('\n'), std::string::npos) << parsed.output;
  }
}

TEST(ConfigTest, ADiskTierNeedsItsCap) {
  const auto config =
      Parse({"--data=/d", "--disk=1GiB", "--disk-write=demotion", "--scrub-rate=0", "--cluster=c",
             "--shards=2", "--ttl=1.5h", "--namespace-ttl=000102030405060708090a0b0c0d0e0f=7d"})
          .config;
  ASSERT_TRUE(config);
  EXPECT_EQ(config->disk->directory, "/d");
  EXPECT_EQ(config->disk->capacity_bytes, 1u << 30);
  EXPECT_EQ(config->disk->policy, WritePolicy::kDemotion);
  EXPECT_EQ(config->disk->scrub_bytes_per_second, 0u);
  EXPECT_EQ(config->cluster, "c");
  EXPECT_EQ(config->shards, 2u);
  EXPECT_EQ(config->ttl, seconds(5400));
  EXPECT_EQ(config->namespace_ttls.at(0).first.bytes[15], std::byte{15});
  EXPECT_EQ(config->namespace_ttls.at(0).second, seconds(7 * 86400));
  EXPECT_FALSE(Parse({}).config->disk);
}

TEST(ConfigTest, Durations) {
  EXPECT_EQ(*ParseDuration("500ms"), milliseconds(500));
  EXPECT_EQ(*ParseDuration("30s"), seconds(30));
  EXPECT_EQ(*ParseDuration("0"), Duration::zero());
  for (const char* bad : {"", "5", "s", "-1s", "1y", "1e300d", "nan", "1 s"}) {
    EXPECT_FALSE(ParseDuration(bad).ok()) << bad;
  }
}

TEST(ConfigTest, HelpIsNotAMistake) {
  const ParsedConfig help = Parse({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.output, HasSubstr("Examples:"));
  EXPECT_EQ(Parse({"--version"}).exit_code, 0);
}

TEST(ConfigTest, Sizes) {
  EXPECT_EQ(*ParseByteSize("4096"), 4096u);
  EXPECT_EQ(*ParseByteSize("4KiB"), 4096u);
  EXPECT_EQ(*ParseByteSize("2MB"), 2'000'000u);
  EXPECT_EQ(*ParseByteSize("0.5GiB"), 512u << 20);
  for (const char* bad : {"", "MiB", "4 MiB", "4mib", "nan", "inf", "-4", "4MiBs", "1e30GiB"}) {
    EXPECT_FALSE(ParseByteSize(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace ember::kv
