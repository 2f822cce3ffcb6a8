#include "router/events/event_follower.h"

#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <future>

#include "router/events/event_socket.h"
#include "tests/unit/router_events/engine_model.h"
#include "tests/unit/router_events/fake_publisher.h"
#include "tests/unit/support/eventually.h"
#include "tests/unit/support/loopback.h"

namespace ember::router {
namespace {

// As FleetFeed does: holders come and go with the members, and are emptied when one is readmitted.
class Holders final : public ReplicaListener {
 public:
  Holders(ReplicaSet& replicas, PrefixIndex& index) : replicas_(replicas), index_(index) {}
  void OnAdded(const Endpoint& endpoint) override {
    for (const ReplicaNumber n : endpoint.members) {
      replicas_.at(n).holder = index_.AddHolder(HolderKind::kReplica);
    }
  }
  void OnRemoved(const Endpoint& endpoint) override {
    for (const ReplicaNumber n : endpoint.members) {
      index_.RemoveHolder(std::exchange(replicas_.at(n).holder, kNoHolder));
    }
  }

 private:
  ReplicaSet& replicas_;
  PrefixIndex& index_;
};

class EventFollowerTest : public ::testing::Test {
 protected:
  EventFollowerTest() {
    replicas_.AddListener(&holders_);
    replicas_.AddListener(&follower_);
  }
  ~EventFollowerTest() override {
    follower_.Close();
    loop_.Stop();
  }
  template <typename F>
  auto OnLoop(F work) {
    std::promise<decltype(work())> result;
    boost::asio::post(loop_.executor(), [&] { result.set_value(work()); });
    return result.get_future().get();
  }
  bool Add(const std::string& config) {
    return OnLoop([&] { return replicas_.Add(*ReplicaConfig::Parse(config)).ok(); });
  }
  // Tokens that the member has.
  uint64_t Known(ReplicaNumber member, const EngineModel::Tokens& tokens) {
    return OnLoop([&]() -> uint64_t {
      TokenizedPrompt prompt;
      prompt.tokens = tokens;
      for (const GroupMatch& match : follower_.feed().Match(prompt, EventFeed::Holders().set())) {
        if (match.holder == replicas_.at(member).holder) return match.device_tokens;
      }
      return 0;
    });
  }

  http::HttpLoop loop_{1};
  ReplicaSet replicas_{HealthOptions{}};
  PrefixIndex index_{PrefixIndexOptions{}};
  SystemRandom random_;
  MetricsRegistry registry_;
  Holders holders_{replicas_, index_};
  EventFollower follower_{loop_, index_, random_, registry_, replicas_};
};

// A16: each rank has an endpoint of its own, and is a member of its own.
TEST_F(EventFollowerTest, RanksAreFollowedAtTheirPorts) {
  const std::string host = "tcp://" + OwnLoopbackAddress();
  FakePublisher second(true, host + ":41002", host + ":41102");
  FakePublisher third(true, host + ":41003", host + ":41103");
  ASSERT_TRUE(
      Add("r,http=127.0.0.1:9,events=" + host + ":41000,replay=" + host + ":41100,ranks=2@2"));
  ASSERT_TRUE(second.WaitForSubscriber());
  ASSERT_TRUE(third.WaitForSubscriber());
  EngineModel two({.rank = 2});
  EngineModel three({.rank = 3});
  second.Publish(two.Store(PromptOf(2, 8)));
  third.Publish(three.Store(PromptOf(3, 8)));
  EXPECT_TRUE(
      Eventually([&] { return Known(0, PromptOf(2, 8)) == 8 && Known(1, PromptOf(3, 8)) == 8; }));
  EXPECT_EQ(Known(0, PromptOf(3, 8)), 0u);
  EXPECT_EQ(Known(1, PromptOf(2, 8)), 0u);
}

TEST_F(EventFollowerTest, AReplicaThatGoesIsNotFollowedAndOneThatComesBackIsAskedForAll) {
  FakePublisher publisher;
  EngineModel engine;
  const std::string config =
      "r,http=127.0.0.1:9,events=" + publisher.address() + ",replay=" + publisher.replay_address();
  ASSERT_TRUE(Add(config));
  ASSERT_TRUE(publisher.WaitForSubscriber());
  publisher.Publish(engine.Store(PromptOf(1, 8)));
  ASSERT_TRUE(Eventually([&] { return Known(0, PromptOf(1, 8)) == 8; }));

  // Readmitted, as after a time in which nobody answered.
  OnLoop([&] { return follower_.OnReadmitted(*replicas_.at(0).endpoint), 0; });
  EXPECT_TRUE(publisher.WaitForSubscriber());
  EXPECT_TRUE(Eventually([&] { return Known(0, PromptOf(1, 8)) == 8; })) << "by its replay";

  OnLoop([&] { return replicas_.Remove("r").ok(); });
  publisher.Publish(engine.Store(PromptOf(2, 8)));
  ASSERT_TRUE(Add(config));
  ASSERT_TRUE(publisher.WaitForSubscriber());
  EXPECT_TRUE(Eventually([&] { return Known(0, PromptOf(2, 8)) == 8; }));
  EXPECT_EQ(Known(0, PromptOf(1, 8)), 8u);
}

// A17: a batch that no frame takes, among those that a router is to have at its start.
TEST_F(EventFollowerTest, ABatchThatIsTooLargeHidesNoOthers) {
  FakePublisher publisher;
  EngineModel engine;
  publisher.Publish(engine.Store(PromptOf(1, 8)));
  publisher.Publish(std::string(EventSocket::kMaxFrameBytes + 1, 'x'));
  publisher.Publish(engine.Store(PromptOf(2, 8)));
  ASSERT_TRUE(Add("r,http=127.0.0.1:9,events=" + publisher.address() +
                  ",replay=" + publisher.replay_address()));
  EXPECT_TRUE(Eventually([&] { return Known(0, PromptOf(2, 8)) == 8; }));
  EXPECT_EQ(Known(0, PromptOf(1, 8)), 0u) << "its removal may be in what could not be had";
}

}  // namespace
}  // namespace ember::router
