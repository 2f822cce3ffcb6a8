#include "router/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "router/policy/registry.h"

namespace ember::router {
namespace {

Result<std::optional<Config>> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "ember-router");
  return Config::FromCommandLine(static_cast<int>(arguments.size()), arguments.data());
}

TEST(Config, DefaultsListenOnLoopbackOnly) {
  const auto config = Parse({});
  ASSERT_TRUE(config.ok() && config->has_value());
  EXPECT_EQ((*config)->service.server.host, "127.0.0.1");
  EXPECT_EQ((*config)->service.server.port, 8080);
  EXPECT_EQ((*config)->grpc->host, "127.0.0.1");
  EXPECT_EQ((*config)->service.router.default_policy->name(), "cache_aware");
  EXPECT_TRUE((*config)->service.replicas.empty());
  EXPECT_EQ((*config)->drain_delay, seconds(5));
}

TEST(Config, ReadsWhatTheHelpShows) {
  const auto config = Parse({"--listen=127.0.0.1:0", "--grpc=off", "--policy=sticky",
                             "--replica=r1,http=127.0.0.1:1,grpc=127.0.0.1:2",
                             "--replica=r2,http=127.0.0.1:3,model=a,b", "--max-body-mib=1",
                             "--allow-path=/v1/files", "--header-timeout-ms=7",
                             "--min-read-rate=77", "--tokenize-timeout-ms=50", "--max-choices=2",
                             "--models-interval-ms=0", "--drain-delay-ms=0"});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ((*config)->service.server.port, 0);
  EXPECT_FALSE((*config)->grpc);
  EXPECT_EQ((*config)->service.replicas.size(), 2u);
  EXPECT_EQ((*config)->service.replicas[1].grpc, "");
  EXPECT_EQ((*config)->service.replicas[1].models, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ((*config)->service.models_interval, Duration::zero());
  EXPECT_EQ((*config)->service.server.max_body_bytes, size_t{1} << 20);
  EXPECT_EQ((*config)->service.server.header_timeout, milliseconds(7));
  EXPECT_EQ((*config)->service.server.min_read_rate, 77u);
  EXPECT_EQ((*config)->service.allowed_paths, std::vector<std::string>{"/v1/files"});
  EXPECT_EQ((*config)->service.tokenizer.engine.deadline, milliseconds(50));
  EXPECT_EQ((*config)->service.router.fan_out.choices, 2u);
  EXPECT_EQ((*config)->drain_delay, Duration::zero());
}

TEST(Config, PoliciesByModelAndWhoMayChoose) {
  const auto config = Parse({"--policy=org/a=b=sticky", "--policy=random", "--policy=m=prefix",
                             "--allow-policy-override=false"});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  const RouterOptions& router = (*config)->service.router;
  EXPECT_EQ(router.default_policy->name(), "random");
  ASSERT_EQ(router.model_policies.size(), 2u);
  EXPECT_EQ(router.model_policies.at("org/a=b")->name(), "sticky");
  EXPECT_EQ(router.model_policies.at("m")->name(), "prefix");
  EXPECT_FALSE(router.allow_policy_override);
  EXPECT_FALSE(Parse({"--policy=m=best"}).ok());
}

TEST(Config, WrongFlagsAreToldInOneLine) {
  for (const std::vector<const char*>& wrong :
       std::vector<std::vector<const char*>>{{"--nope"},
                                             {"--policy=best"},
                                             {"--listen=8080"},
                                             {"--listen=:"},
                                             {"--grpc=127.0.0.1"},
                                             {"--replica=r1"},
                                             {"--replica=r1,http=a:1", "--replica=r1,http=b:1"},
                                             {"--max-retries=-1"},
                                             {"--max-in-flight=0"},
                                             {"--grace-ms=soon"},
                                             {"--log-level=loud"},
                                             {"--tls-cert=/none.pem"},
                                             {"--tls-cert=/none.pem", "--tls-key=/none.pem"},
                                             {"--tls-client-ca=/none.pem"},
                                             {"--upstream-ca=/none.pem"},
                                             {"--allow-path=/a/../b"},
                                             {"--allow-path=/metrics"},
                                             {"--cors-origin=https://a.b:443"},
                                             {"--max-header-kib=0"},
                                             {"stray"}}) {
    const auto config = Parse(wrong);
    ASSERT_FALSE(config.ok()) << wrong[0];
    EXPECT_EQ(config.status().code(), StatusCode::kInvalid);
    EXPECT_FALSE(config.status().message().empty());
    EXPECT_EQ(config.status().message().find('\n'), std::string_view::npos)
        << config.status().message();
  }
}

TEST(Config, WhatIsWrongIsQuotedAsItWasTyped) {
  for (const char* listen : {":0", "::1:0"}) {
    const auto config = Parse({("--listen=" + std::string(listen)).c_str()});
    EXPECT_THAT(std::string(config.status().message()),
                testing::HasSubstr("\"" + std::string(listen) + "\""));
  }
}

TEST(Config, ListensAtAddressesAndKnowsTheNameOfThisMachine) {
  EXPECT_EQ(Parse({"--listen=localhost:1"})->value().service.server.host, "127.0.0.1");
  EXPECT_EQ(Parse({"--admin=localhost:1"})->value().service.admin.listen->host, "127.0.0.1");
  for (const char* flag : {"--listen=door.example:1", "--grpc=door:1", "--admin=door:1"}) {
    EXPECT_THAT(std::string(Parse({flag, "--admin-without-token"}).status().message()),
                testing::HasSubstr("names are not looked up here"))
        << flag;
  }
}

TEST(Config, WhatIsCachedIsToldBesideV1OnlyToThisMachineOrForAToken) {
  const auto tells = [](const std::vector<const char*>& arguments) {
    return Parse(arguments)->value().service.admin.explain_on_door;
  };
  const auto live = [](const std::vector<const char*>& arguments) {
    return Parse(arguments)->value().service.admin.live_on_door;
  };
  for (const std::vector<const char*>& flags :
       std::vector<std::vector<const char*>>{{}, {"--listen=[::1]:1"}, {"--listen=localhost:1"}}) {
    EXPECT_TRUE(live(flags));
  }
  for (const std::vector<const char*>& flags :
       std::vector<std::vector<const char*>>{{"--listen=0.0.0.0:1"},
                                             {"--listen=[::]:1"},
                                             {"--listen=192.0.2.1:1"},
                                             {"--listen=0.0.0.0:1", "--admin=127.0.0.1:0"},
                                             {"--admin=127.0.0.1:0"}}) {
    EXPECT_FALSE(live(flags));
  }
  EXPECT_TRUE(tells({}));
  EXPECT_TRUE(tells({"--listen=[::1]:1"}));
  EXPECT_TRUE(tells({"--listen=localhost:1"}));
  EXPECT_FALSE(tells({"--listen=0.0.0.0:1"}));
  EXPECT_FALSE(tells({"--listen=0.0.0.0:1", "--admin=127.0.0.1:0"}));
  EXPECT_FALSE(tells({"--admin=127.0.0.1:0"})) << "who asks there has an address for it";
  const std::string file = testing::TempDir() + "explain_token";
  std::ofstream(file) << "t0ken\n";
  const std::string token = "--admin-token-file=" + file;
  EXPECT_TRUE(tells({"--listen=0.0.0.0:1", "--admin=door", token.c_str()}));
  EXPECT_TRUE(tells({"--listen=0.0.0.0:1", "--admin=0.0.0.0:2", token.c_str()}));
  EXPECT_FALSE(live({"--listen=0.0.0.0:1", "--admin=door", token.c_str()})) << "not for everybody";
}

TEST(Config, FleetFlagsSayWhereReplicasComeFrom) {
  const auto config =
      Parse({"--fleet-file=/run/fleet", "--fleet-dns=llm.svc:8000,model=m",
             "--fleet-dns=embed.svc:8000", "--fleet-dns-interval-ms=1000",
             "--health-interval-ms=200", "--health-path=/ready?x=1", "--admin=127.0.0.1:0"});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  const ServiceOptions& s = (*config)->service;
  EXPECT_EQ(s.fleet_file, "/run/fleet");
  ASSERT_EQ(s.fleet_dns.size(), 2u);
  EXPECT_EQ(s.fleet_dns[0].name, "llm.svc");
  EXPECT_EQ(s.fleet_dns[0].interval, seconds(1));
  EXPECT_EQ(s.fleet_dns[1].name, "embed.svc");
  EXPECT_EQ(s.health.probe_interval, milliseconds(200));
  EXPECT_EQ(s.health_path, "/ready?x=1");
  EXPECT_EQ(s.admin.listen->port, 0);
  EXPECT_FALSE(s.admin.on_door);
  EXPECT_FALSE(Parse({})->value().service.admin.listen) << "nobody changes the fleet by default";
  for (const char* loopback : {"--admin=127.0.0.9:1", "--admin=[::1]:1"}) {
    EXPECT_TRUE(Parse({loopback}).ok()) << loopback;
  }
  EXPECT_TRUE(Parse({"--admin=0.0.0.0:1", "--admin-without-token"}).ok()) << "as it was said";
  for (const std::vector<const char*>& wrong :
       std::vector<std::vector<const char*>>{{"--admin=door"},
                                             {"--admin=127.0.0.1:0", "--admin-token-file=/nowhere"},
                                             {"--admin=0.0.0.0:1"},
                                             {"--admin=[::]:1"},
                                             {"--admin-token-file=/dev/null"},
                                             {"--fleet-dns=llm.svc"},
                                             {"--fleet-dns=a:1", "--fleet-dns=a:1,model=m"},
                                             {"--health-path=health"},
                                             {"--replica=r1,http=a:1,key_file=/nowhere"}}) {
    EXPECT_FALSE(Parse(wrong).ok()) << wrong[0];
  }
}

}  // namespace
}  // namespace ember::router
