// Several routers in front of one fleet: each builds the same picture from the same events, one
// that starts late catches up, and together they choose as one of them would.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/unit/router/router_fixture.h"
#include "tests/unit/router_events/engine_model.h"
#include "tests/unit/router_events/fake_publisher.h"
#include "tests/unit/support/eventually.h"

namespace ember::router {
namespace {

using Tokens = EngineModel::Tokens;

// An engine that has a prefix cache without end, counts what it finds there, and publishes what it
// stores.
class CachingReplica {
 public:
  CachingReplica()
      : replica([this](http::TestSocket& peer, const http::WireMessage& request) {
          const auto prompt = nlohmann::json::parse(request.body)["prompt"].get<Tokens>();
          const std::lock_guard lock(mutex_);
          const size_t held = model_.Held(prompt);
          publisher.Publish(model_.Store(prompt));
          cached_tokens += held;
          prompt_tokens += prompt.size();
          const nlohmann::json reply = {{"choices", nlohmann::json::array()},
                                        {"usage",
                                         {{"prompt_tokens", prompt.size()},
                                          {"completion_tokens", 1},
                                          {"prompt_tokens_details", {{"cached_tokens", held}}}}}};
          peer.Send(JsonReply(200, reply.dump()));
        }) {}

  size_t blocks() {
    const std::lock_guard lock(mutex_);
    return model_.blocks();
  }

  FakePublisher publisher;
  std::atomic<uint64_t> cached_tokens{0};
  std::atomic<uint64_t> prompt_tokens{0};
  FakeReplica replica;

 private:
  std::mutex mutex_;
  EngineModel model_{{.block_size = 16}};
};

class SeveralRouters : public testing::Test {
 protected:
  static constexpr size_t kReplicas = 4;

  void Start(size_t routers) {
    for (size_t i = 0; i < kReplicas; ++i) fleet_.push_back(std::make_unique<CachingReplica>());
    for (size_t i = 0; i < routers; ++i) AddRouter();
  }

  void AddRouter() {
    std::vector<http::Origin> origins;
    for (const auto& r : fleet_) origins.push_back(r->replica.origin());
    routers_.push_back(std::make_unique<RouterFixture>(origins, [&](ServiceOptions& options) {
      options.router.default_policy = FindPolicy("cache_aware");
      for (size_t i = 0; i < kReplicas; ++i) {
        options.replicas[i].events = fleet_[i]->publisher.address();
        options.replicas[i].replay = fleet_[i]->publisher.replay_address();
      }
    }));
  }

  // What the router knows of each replica is what the replica holds.
  bool Knows(RouterFixture& router) {
    const StatusReport status = router.Status();
    for (size_t i = 0; i < kReplicas; ++i) {
      if (status.replicas[i].blocks_held < fleet_[i]->blocks()) return false;
    }
    return true;
  }
  void AwaitKnowledge() {
    for (const auto& router : routers_) {
      ASSERT_TRUE(Eventually([&] { return Knows(*router); }));
    }
  }

  static std::string Body(const Tokens& prompt) {
    return nlohmann::json{{"model", "m"}, {"max_tokens", 1}, {"prompt", prompt}}.dump();
  }
  static Tokens Turn(int conversation, int turn) {
    return PromptOf(conversation, 320 + 160 * static_cast<size_t>(turn));
  }
  void Ask(size_t router, const Tokens& prompt) {
    const auto reply = routers_[router]->Ask(Post(Body(prompt), "", "/v1/completions"));
    ASSERT_EQ(reply.status(), 200) << reply.body;
    ++sent_[reply.Field("x-ember-replica")];
  }

  struct Quality {
    double hit = 0;
    double imbalance = 0;  // most requests of a replica beside the mean
  };
  Quality Serve(int conversations, int turns) {
    size_t next = 0;
    for (int turn = 0; turn < turns; ++turn) {
      for (int c = 0; c < conversations; ++c) Ask(next++ % routers_.size(), Turn(c, turn));
      AwaitKnowledge();
    }
    uint64_t cached = 0, prompt = 0;
    for (const auto& r : fleet_) {
      cached += r->cached_tokens;
      prompt += r->prompt_tokens;
    }
    const auto most =
        std::max_element(sent_.begin(), sent_.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return {static_cast<double>(cached) / static_cast<double>(prompt),
            static_cast<double>(most->second) * kReplicas / (conversations * turns)};
  }

  std::vector<std::unique_ptr<CachingReplica>> fleet_;
  std::vector<std::unique_ptr<RouterFixture>> routers_;
  std::map<std::string, int> sent_;
};

TEST_F(SeveralRouters, OneThatStartsLateDecidesAsOneThatHeardItAll) {  // A17
  Start(1);
  constexpr int kConversations = 60;
  for (int c = 0; c < kConversations; ++c) Ask(0, Turn(c, 0));
  AwaitKnowledge();
  AddRouter();
  AwaitKnowledge();
  int blind = 0;
  for (int c = 0; c < kConversations; ++c) {
    std::string chosen[2];
    for (size_t r : {0, 1}) {
      const auto explained = nlohmann::json::parse(
          routers_[r]->Ask(Post(Body(Turn(c, 1)), "", "/admin/explain?path=/v1/completions")).body);
      const auto& attempt = explained["request"]["attempts"][0];
      chosen[r] = attempt["replica"];
      uint64_t known = 0;
      for (const auto& candidate : attempt["candidates"]) {
        known = std::max<uint64_t>(known, candidate["device_tokens"]);
      }
      if (known < 320) ++blind;
    }
    EXPECT_EQ(chosen[0], chosen[1]) << c;
  }
  EXPECT_EQ(blind, 0);
}

TEST_F(SeveralRouters, EightAreAsGoodAsOne) {  // D25
  const auto measure = [this](size_t routers) {
    routers_.clear();
    fleet_.clear();
    sent_.clear();
    Start(routers);
    return Serve(200, 4);
  };
  const Quality one = measure(1);
  EXPECT_GT(one.hit, 0.5);
  for (const size_t routers : {2, 8}) {
    const Quality several = measure(routers);
    EXPECT_NEAR(several.hit, one.hit, 0.05) << routers;
    // Idle replicas are drawn among: four deviations of what chance makes of 200 conversations.
    EXPECT_LT(several.imbalance, 1.5) << routers;
  }
}

}  // namespace
}  // namespace ember::router
