// A model whose tokens differ from an engine's is not trusted until they are equal again, and a
// prompt is then asked of the engine.
#include "router/tokenize/parity_probe.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <future>

#include "router/tokenize/json_text.h"
#include "router/tokenize/prompt_tokenizer.h"
#include "tests/unit/http/fake_upstream.h"
#include "tests/unit/router_tokenize/model_folder.h"
#include "tests/unit/router_tokenize/stand_in_agents.h"

namespace ember::router {
namespace {

class ParityProbeTest : public testing::Test {
 protected:
  ParityProbeTest()
      : engine_([this](http::TestSocket& peer) { Serve(peer); }),
        pool_(loop_),
        replicas_(HealthOptions{}),
        tokenizer_(replicas_, agents_, pool_, metrics_, Options()),
        probe_(loop_, pool_, replicas_, tokenizer_.local(), metrics_,
               {.interval = milliseconds(5), .retry = milliseconds(5)}) {
    tokenizer_.local().models().Add("m", model_);
    OnLoop([this] {
      replicas_.AddListener(&probe_);
      ReplicaConfig config{.id = "r1", .http = engine_.origin()};
      EXPECT_TRUE(replicas_.Add(std::move(config)).ok());
      replicas_.ApplyModels(*replicas_.Find("r1"),
                            std::optional(ModelList{.models = {{.name = "m"}, {.name = "other"}}}));
      replicas_.ApplyProbe(*replicas_.at(replicas_.numbers().front()).endpoint, OkStatus(),
                           SteadyClock().Now());
    });
  }
  ~ParityProbeTest() override {
    OnLoop([this] { EXPECT_TRUE(replicas_.Remove("r1").ok()); });
    loop_.Stop();
  }
  static PromptTokenizerOptions Options() {
    PromptTokenizerOptions options;
    options.local.min_body_bytes = 0;
    options.text = false;
    return options;
  }
  void OnLoop(const std::function<void()>& work) {
    std::promise<void> done;
    boost::asio::post(loop_.executor(), [&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  TokenizerReport::Parity Parity() {
    TokenizerReport report;
    OnLoop([&] { report = tokenizer_.Report(); });
    EXPECT_EQ(report.models.size(), 1u);
    EXPECT_EQ(report.models.at(0).model, "m");
    return report.models.at(0).parity;
  }
  bool Trusted() {
    bool trusted = false;
    OnLoop([&] { trusted = tokenizer_.local().models().Find("m")->trusted; });
    return trusted;
  }
  // vLLM's answers, right or with one token too many.
  void Serve(http::TestSocket& peer) {
    for (;;) {
      const http::WireMessage request = peer.ReadMessage();
      if (!request.complete) return;
      std::string reply = "{}";
      if (request.head.starts_with("POST /tokenize ")) {
        const PromptApi api = request.body.find("\"messages\"") == std::string::npos
                                  ? PromptApi::kCompletion
                                  : PromptApi::kChat;
        reply = "{\"count\":0,\"tokens\":[" + (wrong_.load() ? std::string("7,") : "") +
                Tokens(api, request.body) + "]}";
        asked_.fetch_add(1);
      }
      if (!peer.Send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(reply.size()) +
                     "\r\n\r\n" + reply))
        return;
    }
  }
  std::string Tokens(PromptApi api, const std::string& body) const {
    PromptOutline outline;
    EXPECT_EQ(PromptOutline::Of(api, body, 0, &outline), PromptReason::kNone);
    std::vector<TokenId> ids;
    ModelTokenizer::Rendered rendered;
    if (api == PromptApi::kCompletion) {
      EXPECT_TRUE(Unescape(outline.slots.at(0), &rendered.text));
    } else {
      EXPECT_EQ(model_->Render(api, outline.request, &rendered), PromptReason::kNone);
    }
    model_->Encode(rendered.text, &ids);
    std::string out;
    for (const TokenId id : ids) out += (out.empty() ? "" : ",") + std::to_string(id);
    return out;
  }

  const ModelFolder folder_{KindNamed("qwen")};
  const std::shared_ptr<const ModelTokenizer> model_ = folder_.Load(false);
  std::atomic<bool> wrong_{false};
  std::atomic<int> asked_{0};
  http::FakeUpstream engine_;
  http::HttpLoop loop_{1};
  http::UpstreamPool pool_;
  MetricsRegistry metrics_;
  StandInAgents agents_;
  ReplicaSet replicas_;
  PromptTokenizer tokenizer_;
  ParityProbe probe_;
};

TEST_F(ParityProbeTest, TrustGoesWithTheFirstDifferenceAndComesBack) {
  EXPECT_TRUE(Eventually([this] { return asked_.load() >= 7; }));
  EXPECT_TRUE(Trusted());
  using enum TokenizerReport::Parity;
  EXPECT_TRUE(Eventually([this] { return Parity() == kEqual; }));
  wrong_.store(true);
  EXPECT_TRUE(Eventually([this] { return !Trusted(); }));
  const std::string body = R"({"model":"m","messages":[{"role":"user","content":"Hello"}]})";
  const auto ask = [&]() -> boost::asio::awaitable<SharedPrompt> {
    Result<SharedPrompt> answer = co_await tokenizer_.Tokenize("/v1/chat/completions", body);
    co_return answer.ok() ? *std::move(answer) : nullptr;
  };
  auto asked = boost::asio::co_spawn(loop_.executor(), ask(), boost::asio::use_future);
  const SharedPrompt prompt = asked.get();
  ASSERT_NE(prompt, nullptr);
  EXPECT_EQ(prompt->source, TokenSource::kEngine);
  EXPECT_EQ(Parity(), kDiffers);
  EXPECT_EQ(prompt->tokens.front(), 7) << "the engine's own, whatever ours are";
  wrong_.store(false);
  EXPECT_TRUE(Eventually([this] { return Trusted(); }));
}

TEST_F(ParityProbeTest, AReplicaThatDoesNotServeTheModelAnyMoreIsNoWitness) {
  wrong_.store(true);
  ASSERT_TRUE(Eventually([this] { return !Trusted(); }));
  OnLoop([this] {
    replicas_.ApplyModels(*replicas_.Find("r1"),
                          std::optional(ModelList{.models = {{.name = "other"}}}));
  });
  EXPECT_TRUE(Trusted());
}

}  // namespace
}  // namespace ember::router
