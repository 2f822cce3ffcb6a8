// Who is a member, by what the sources say.
#include "router/fleet/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <future>

#include "router/fleet/fleet_dns.h"
#include "router/fleet/fleet_list.h"
#include "tests/unit/support/eventually.h"

namespace ember::router {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

ReplicaConfig At(const std::string& id, uint16_t port) {
  return {.id = id, .http = {"127.0.0.1", port}};
}

struct Fleet {
  std::vector<std::string> Ids() const {
    std::vector<std::string> ids;
    for (const auto& e : set.endpoints()) ids.push_back(e->config.id);
    return ids;
  }
  ReplicaSet set{HealthOptions()};
  Membership membership{set};
};

TEST(Membership, ASourceSaysWhatItHasAndEqualReplicasAreLeftAlone) {
  Fleet f;
  ASSERT_TRUE(f.membership.Replace(kFileSource, {At("a", 1), At("b", 2)}).ok());
  const Endpoint* a = f.set.Find("a");
  const Endpoint* b = f.set.Find("b");
  const std::shared_ptr<Endpoint> old_b = f.set.at(b->members[0]).endpoint;
  ASSERT_TRUE(f.membership.Replace(kFileSource, {At("c", 3), At("a", 1), At("b", 4)}).ok());
  EXPECT_THAT(f.Ids(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(f.set.Find("a"), a);
  EXPECT_NE(f.set.Find("b"), b) << "another address is another replica";
  EXPECT_TRUE(old_b->removed);
  ASSERT_TRUE(f.membership.Replace(kFileSource, {}).ok());
  EXPECT_EQ(f.set.size(), 0u);
}

TEST(Membership, SourcesDoNotTouchEachOthersReplicas) {
  Fleet f;
  ASSERT_TRUE(f.membership.Replace(kFlagSource, {At("flag", 1)}).ok());
  ASSERT_TRUE(f.membership.Replace(kFileSource, {At("file", 2)}).ok());
  const Status conflict = f.membership.Replace(kFileSource, {At("new", 3), At("flag", 4)});
  EXPECT_EQ(conflict.code(), StatusCode::kMismatch);
  EXPECT_THAT(f.Ids(), ElementsAre("flag", "new")) << "it keeps its source; all else is taken";
  EXPECT_EQ(f.set.Find("flag")->config.http.port, 1);
  EXPECT_FALSE(f.membership.Replace(kDnsSource, {At("x", 3), At("x", 4)}).ok());
  EXPECT_EQ(f.membership.Remove("new").code(), StatusCode::kMismatch);
  EXPECT_EQ(f.membership.Remove("none").code(), StatusCode::kNotFound);
  EXPECT_TRUE(f.membership.Remove("flag").ok());
  EXPECT_TRUE(f.membership.Add(kAdminSource, At("flag", 5)).ok());
  EXPECT_EQ(f.membership.SourceOf("flag"), kAdminSource);
}

// What its index and its counters are kept by stays.
TEST(Membership, AReplicaWithAnotherKeyWeightOrLimitStaysTheReplicaThatItIs) {
  Fleet f;
  ReplicaConfig config = At("a", 1);
  config.max_concurrency = 1;
  ASSERT_TRUE(f.membership.Replace(kFileSource, {config}).ok());
  const Endpoint* a = f.set.Find("a");
  const ReplicaNumber n = a->members[0];
  f.set.ApplyProbe(*f.set.at(n).endpoint, OkStatus(), TimePoint());
  int told = 0;
  f.set.SetOnRoom([&] { ++told; });
  const auto flight = f.set.Start(n, 0, 0, TimePoint());
  EXPECT_FALSE(f.set.at(n).has_room());
  config.max_concurrency = 2;
  config.weight = 3;
  config.key = "new";
  ASSERT_TRUE(f.membership.Replace(kFileSource, {config}).ok());
  EXPECT_EQ(f.set.Find("a"), a);
  EXPECT_EQ(a->state(), "up");
  EXPECT_EQ(f.set.at(n).view.weight, 3);
  EXPECT_EQ(f.set.at(n).totals.requests, 1u);
  EXPECT_EQ(a->config.key, "new");
  EXPECT_TRUE(f.set.at(n).has_room());
  EXPECT_EQ(told, 1) << "who waits may go";
  config.ranks = 2;
  ASSERT_TRUE(f.membership.Replace(kFileSource, {config}).ok());
  EXPECT_EQ(f.set.size(), 2u) << "other ranks are other members";
}

TEST(Membership, EachDnsNameIsASourceOfItsOwn) {
  Fleet f;
  const std::string llm = FleetDnsConfig::Parse("llm.svc:80")->source();
  const std::string embed = FleetDnsConfig::Parse("embed.svc:80")->source();
  ASSERT_TRUE(f.membership.Replace(llm, {At("a", 1)}).ok());
  ASSERT_TRUE(f.membership.Replace(embed, {At("b", 2)}).ok());
  EXPECT_THAT(f.Ids(), ElementsAre("a", "b"));
  EXPECT_EQ(f.membership.Remove("b").code(), StatusCode::kMismatch);
  ASSERT_TRUE(f.membership.Replace(llm, {}).ok());
  EXPECT_THAT(f.Ids(), ElementsAre("b"));
}

TEST(Membership, OnlySourcesWithTroubleAreListed) {
  Fleet f;
  f.membership.SetTrouble(kFileSource, OkStatus());
  EXPECT_TRUE(f.membership.troubles().empty());
  f.membership.SetTrouble(kFileSource, InvalidError("line 2"));
  f.membership.SetTrouble(kDnsSource, OkStatus());
  EXPECT_THAT(f.membership.troubles(), ElementsAre(testing::Pair(kFileSource, "line 2")));
  f.membership.SetTrouble(kFileSource, OkStatus());
  EXPECT_TRUE(f.membership.troubles().empty());
  f.membership.SetTrouble(kFileSource, InvalidError("line 3"));
  EXPECT_THAT(f.membership.SourcesInTrouble(),
              ElementsAre(testing::Pair(kDnsSource, false), testing::Pair(kFileSource, true)));
}

TEST(FleetList, OneReplicaALine) {
  const auto list = ParseFleetList(
      "# the fleet\n\n  r1 http=10.0.0.1:8000 ranks=2@4\t model=a  # comment\r\n"
      "r2 http=[::1]:8000,\n");
  EXPECT_FALSE(list.ok()) << "a comma is no blank";
  const auto good =
      ParseFleetList("r1 http=10.0.0.1:8000 ranks=2@4\t model=a,b  # x\r\n\nr2 http=b:1");
  ASSERT_TRUE(good.ok()) << good.status().ToString();
  ASSERT_EQ(good->size(), 2u);
  EXPECT_EQ((*good)[0].first_rank, 4u);
  EXPECT_EQ((*good)[0].models, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ((*good)[1].http.host, "b");
  EXPECT_TRUE(ParseFleetList("# none now\n")->empty());
}

TEST(FleetList, SaysWhereItIsWrong) {
  const std::pair<std::string, const char*> wrong[] = {
      {"", "empty"},
      {" \n\n", "empty"},
      {"r1 http=a:1\nr2 http=a\n", "line 2"},
      {"r1 http=a:1\n\nr1 http=b:1", "line 3"},
      {"r1 http=a:1 junk", "line 1"},
      {"r1 http=a:1 key=s3cret colour=red", "line 1"},
      {std::string("r1 http=a:1\0", 12), "line 1"},
      {std::string((1u << 20) + 1, '#'), "1 MiB"}};
  for (const auto& [text, where] : wrong) {
    const auto list = ParseFleetList(text);
    ASSERT_FALSE(list.ok()) << text.substr(0, 100);
    EXPECT_THAT(list.status().ToString(), HasSubstr(where));
    EXPECT_THAT(list.status().ToString(), Not(HasSubstr("s3cret")));
  }
}

TEST(FleetDnsConfig, HasFieldsForEachAddress) {
  const auto config = FleetDnsConfig::Parse("llm.svc:8000,model=m,events=tcp://{host}:5557");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  const auto v4 = config->ReplicaAt("10.0.0.7");
  ASSERT_TRUE(v4.ok());
  EXPECT_EQ(v4->id, "10.0.0.7_8000");
  EXPECT_EQ(v4->http.ToString(), "10.0.0.7:8000");
  EXPECT_EQ(v4->events, "tcp://10.0.0.7:5557");
  EXPECT_EQ(v4->models, std::vector<std::string>{"m"});
  const auto v6 = config->ReplicaAt("fd00::7");
  ASSERT_TRUE(v6.ok()) << v6.status().ToString();
  EXPECT_EQ(v6->http.ToString(), "[fd00::7]:8000");
  EXPECT_EQ(v6->events, "tcp://[fd00::7]:5557");
  const Status unknown = FleetDnsConfig::Parse("llm:1,colour=red").status();
  EXPECT_THAT(unknown.ToString(), HasSubstr("replica \"{host}_1\": unknown field"));
  for (const char* wrong : {"", "llm", "llm:0", "llm:1,", "llm:1,colour=red", "llm:1,http=a:1"}) {
    const bool ok = FleetDnsConfig::Parse(wrong).ok();
    EXPECT_EQ(ok, std::string_view(wrong) == "llm:1,") << wrong;
  }
}

// A DNS name whose answers are the test's.
class DnsTest : public testing::Test {
 protected:
  DnsTest() {
    OnLoop([&] { dns.Follow(loop); });
  }
  ~DnsTest() override {
    OnLoop([&] { dns.Stop(); });
    loop.Stop();
  }
  void OnLoop(const std::function<void()>& work) {
    std::promise<void> done;
    boost::asio::post(loop.executor(), [&] {
      work();
      done.set_value();
    });
    done.get_future().get();
  }
  std::vector<std::string> Ids() {
    std::vector<std::string> ids;
    OnLoop([&] { ids = f.Ids(); });
    return ids;
  }
  std::string Trouble() {
    std::string what;
    OnLoop([&] {
      for (const auto& [source, trouble] : f.membership.troubles()) what = trouble;
    });
    return what;
  }
  void Say(Result<FleetDns::Addresses> next) {
    OnLoop([&] { answer = std::move(next); });
  }

  Fleet f;
  Result<FleetDns::Addresses> answer = FleetDns::Addresses{"10.0.0.2", "10.0.0.1", "10.0.0.2"};
  http::HttpLoop loop;
  FleetDns dns{FleetDnsConfig{.name = "llm", .port = 80, .fields = "", .interval = milliseconds(5)},
               f.membership,
               [this](std::string) -> boost::asio::awaitable<Result<FleetDns::Addresses>> {
                 co_return answer;
               }};
};

TEST_F(DnsTest, FollowsTheAnswersAndKeepsTheLastGoodOne) {
  const std::vector<std::string> two = {"10.0.0.1_80", "10.0.0.2_80"};
  ASSERT_TRUE(Eventually([&] { return Ids() == two; }));
  Say(UnavailableError("no such host"));
  ASSERT_TRUE(Eventually([&] { return Trouble() != ""; }));
  EXPECT_THAT(Trouble(), HasSubstr("no such host"));
  EXPECT_EQ(Ids(), two);
  Say(FleetDns::Addresses{});
  ASSERT_TRUE(Eventually([&] { return Trouble().find("0 addresses") != std::string::npos; }));
  EXPECT_EQ(Ids(), two) << "no address is no answer";
  Say(FleetDns::Addresses{"10.0.0.2", "fd00::3"});
  ASSERT_TRUE(Eventually([&] {
    return Ids() == std::vector<std::string>{"10.0.0.2_80", "fd00--3_80"};
  }));
  EXPECT_EQ(Trouble(), "");
}

TEST(FleetDns, AsksTheSystem) {
  http::HttpLoop loop;
  std::promise<Result<FleetDns::Addresses>> promise;
  loop.Spawn([](auto& out, FleetDns::Resolve resolve) -> boost::asio::awaitable<void> {
    out.set_value(co_await resolve("localhost"));
  }(promise, FleetDns::BySystem(loop)));
  const auto addresses = promise.get_future().get();
  loop.Stop();
  ASSERT_TRUE(addresses.ok()) << addresses.status().ToString();
  EXPECT_THAT(*addresses, testing::Contains(testing::AnyOf("127.0.0.1", "::1")));
}

}  // namespace
}  // namespace ember::router
