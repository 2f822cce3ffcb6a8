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

constexpr auto kPrefill = std::chrono::microseconds(8);  // a token

// An engine that has a prefix cache without end, counts what it finds there, and publishes what it
// stores.
class CachingReplica {
 public:
  CachingReplica()
      : replica([this](http::TestSocket& peer, const http::WireMessage& request) {
          const Tokens prompt = TokensOf(nlohmann::json::parse(request.body)["prompt"]);
          if (request.head.starts_with("POST /tokenize ")) {
            peer.Send(JsonReply(200, nlohmann::json{{"tokens", prompt}}.dump()));
            return;
          }
          const std::lock_guard lock(mutex_);
          const size_t held = model_.Held(prompt);
          Compute(prompt.size() - held);
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
  // Takes time: routers to which computing costs nothing find all replicas equal.
  static void Compute(size_t tokens) {
    const TimePoint end = SteadyClock().Now() + kPrefill * tokens;
    while (SteadyClock().Now() < end) {
    }
  }
  // Text has a token for every three bytes.
  static Tokens TokensOf(const nlohmann::json& prompt) {
    if (prompt.is_array()) return prompt.get<Tokens>();
    const auto text = prompt.get<std::string>();
    Tokens tokens;
    for (size_t i = 0; i + 3 <= text.size(); i += 3) {
      tokens.push_back((text[i] & 255) << 16 | (text[i + 1] & 255) << 8 | (text[i + 2] & 255));
    }
    return tokens;
  }

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
      if (status.replicas[i].held.any < fleet_[i]->blocks()) return false;
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

TEST_F(SeveralRouters, IdsAreMatchedHoweverFewTheyAre) {
  Start(2);
  const auto ask = [this](size_t router, const Tokens& prompt) {
    return routers_[router]
        ->Ask(Post(Body(prompt), "x-ember-policy: prefix\r\n", "/v1/completions"))
        .Field("x-ember-replica");
  };
  std::vector<std::string> homes;
  for (int c = 0; c < 20; ++c) homes.push_back(ask(0, PromptOf(c, 48)));
  AwaitKnowledge();
  for (int c = 0; c < 20; ++c) EXPECT_EQ(ask(1, PromptOf(c, 64)), homes[static_cast<size_t>(c)]);
}

// Events speak of tokens; where nobody else knows a text's, the engine does.
TEST_F(SeveralRouters, TextIsKnownByTheEnginesOwnTokensWithoutATokenizer) {
  Start(2);
  const auto ask = [this](size_t router, int conversation, size_t size) {
    const std::string text = std::to_string(conversation) + std::string(size, 'x');
    const auto reply = routers_[router]->Ask(Post(nlohmann::json{{"prompt", text}}.dump(),
                                                  "x-ember-policy: prefix\r\n", "/v1/completions"));
    EXPECT_EQ(reply.status(), 200);
    return reply.Field("x-ember-replica");
  };
  std::vector<std::string> homes;
  for (int c = 0; c < 20; ++c) homes.push_back(ask(0, 100 + c, 3000));
  AwaitKnowledge();
  for (int c = 0; c < 20; ++c) EXPECT_EQ(ask(1, 100 + c, 4000), homes[static_cast<size_t>(c)]);
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
