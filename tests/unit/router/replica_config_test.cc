#include "router/fleet/replica_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/support/temp_folder.h"

namespace ember::router {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ReplicaConfig, ParsesEveryField) {
  const auto config = ReplicaConfig::Parse("r-1.a_B,http=127.0.0.1:9001,grpc=[::1]:9002");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->id, "r-1.a_B");
  EXPECT_EQ(config->http.ToString(), "127.0.0.1:9001");
  EXPECT_EQ(config->grpc, "[::1]:9002");
  EXPECT_EQ(config->ranks, 0u);
  EXPECT_EQ(config->max_concurrency, 0u);
  EXPECT_EQ(config->weight, 1);
  const auto all = ReplicaConfig::Parse(
      "v,http=host:1,events=tcp://host:5557,replay=tcp://host:5657,key=s3cret,model=org/m,m,"
      "ranks=4@2,weight=2.5,max_concurrency=32,host=llm.example:8443");
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  EXPECT_EQ(all->events, "tcp://host:5557");
  EXPECT_EQ(all->replay, "tcp://host:5657");
  EXPECT_EQ(all->key, "s3cret");
  EXPECT_EQ(all->models, (std::vector<std::string>{"org/m", "m"})) << "its names";
  EXPECT_EQ(all->ranks, 4u);
  EXPECT_EQ(all->first_rank, 2u);
  EXPECT_EQ(all->weight, 2.5);
  EXPECT_EQ(all->max_concurrency, 32u);
  EXPECT_EQ(all->host, "llm.example:8443");
}

TEST(ReplicaConfig, RefusesEverythingElse) {
  for (const char* text : {"",
                           ",",
                           "r1",
                           "r1,",
                           "r 1,http=a:1",
                           ".,http=a:1",
                           "..,http=a:1",
                           "r1,http=http=1:2",
                           "r1,http=",
                           "r1,http=a",
                           "r1,http=a:0",
                           "r1,http=a:70000",
                           "r1,grpc=a:1",
                           "r1,http=a:1,tcp=b:2",
                           "r1,http=a:1,x",
                           "http=a:1",
                           "r1,http=a:1,grpc=:3",
                           "r1,http=a:1,http=a:2",
                           "r1,http=a:1,ranks=0",
                           "r1,http=a:1,ranks=65",
                           "r1,http=a:1,ranks=2@",
                           "r1,http=a:1,ranks=-1",
                           "r1,http=a:1,weight=0",
                           "r1,http=a:1,weight=nan",
                           "r1,http=a:1,weight=101",
                           "r1,http=a:1,max_concurrency=0",
                           "r1,http=a:1,max_concurrency=1x",
                           "r1,http=a:1,events=a:1",
                           "r1,http=a:1,events=tcp://a",
                           "r1,http=a:1,events=tcp://a:",
                           "r1,http=a:1,events=tcp://a:0",
                           "r1,http=a:1,events=tcp://a:99999",
                           "r1,http=a:1,events=tcp://*:5557",
                           "r1,http=a:1,events=tcp://a:1,replay=tcp://*:5558",
                           "r1,http=a:1,events=tcp://a:65534,ranks=3",
                           "r1,http=a:1,events=tcp://a:1,replay=tcp://a:65535,ranks=1@1",
                           "r1,http=a:1,events=ipc:///run/events,ranks=2",
                           "r1,http=a:1,replay=tcp://a:1",
                           "r1,http=a:1,host=a b",
                           "r1,http=a:1,model=m,,n",
                           "r1,model=m,http=a:1,x",
                           "r1,http=a:1,key=k,key_file=f",
                           "r1,http=a:1,grpc=b:1,ranks=2"}) {
    EXPECT_FALSE(ReplicaConfig::Parse(text).ok()) << text;
  }
  EXPECT_FALSE(ReplicaConfig::Parse("r1,http=a:1,model=" + std::string(1025, 'm')).ok());
}

// What the engine's own option says, copied.
TEST(ReplicaConfig, AnAddressToListenAtIsRefusedWithWhatToSayInstead) {
  for (const char* text :
       {"r1,http=a:1,events=tcp://*:5557", "r1,http=a:1,events=tcp://a:1,replay=tcp://*:5557"}) {
    const auto config = ReplicaConfig::Parse(text);
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_THAT(config.status().ToString(), HasSubstr("tcp://*:5557"));
    EXPECT_THAT(config.status().ToString(), HasSubstr("tcp://HOST:PORT"));
  }
  EXPECT_TRUE(ReplicaConfig::Parse("r1,http=a:1,events=tcp://a:65534,ranks=2").ok());
  EXPECT_TRUE(
      ReplicaConfig::Parse("r1,http=a:1,events=ipc:///run/events,replay=ipc:///run/replay").ok());
}

TEST(ReplicaConfig, AKeyIsNeverPartOfAnError) {
  for (const char* text : {"r1,key=s3cret", "r1,key=s3cret,http=a", "r1,http=a:1,key=s3cret,key=x",
                           "r1,http=a:1,key=s3cret\x01"}) {
    const auto config = ReplicaConfig::Parse(text);
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_THAT(config.status().ToString(), Not(HasSubstr("s3cret")));
  }
}

TEST(ReplicaConfig, AKeyMayStandInAFile) {
  const std::string folder = MakeTempFolder();
  const std::string path = folder + "/key";
  auto config = ReplicaConfig::Parse("r1,http=a:1,key_file=" + path);
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->LoadKey().code(), StatusCode::kUnavailable) << "there is no such file";
  std::ofstream(path) << "s3cret \r\nsecond line\n";
  ASSERT_TRUE(config->LoadKey().ok());
  EXPECT_EQ(config->key, "s3cret");
  for (const std::string& bad : {std::string("\n"), std::string(), std::string(5000, 'x'),
                                 std::string("a b\n"), std::string("a\x01\n")}) {
    std::ofstream(path) << bad;
    EXPECT_FALSE(config->LoadKey().ok()) << bad;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ember::router
