// Who is asked for a prompt's tokens, and for how long.
#include "router/tokenize/prompt_tokenizer.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <future>

#include "tests/unit/http/fake_upstream.h"
#include "tests/unit/router_tokenize/model_folder.h"
#include "tests/unit/router_tokenize/stand_in_agents.h"

namespace ember::router {
namespace {

// Answers POST /tokenize with three tokens, or as the test wants it.
struct TokenizingEngine {
  std::atomic<int> asked{0};
  Duration pause{};               // before each answer
  const char* status = "200 OK";  // of /tokenize
  std::string answer = R"({"tokens":[1,2,3]})";
  http::FakeUpstream upstream{[this](http::TestSocket& peer) {
    for (;;) {
      const http::WireMessage request = peer.ReadMessage();
      if (!request.complete) return;
      const bool template_asked = request.head.starts_with("POST /apply-template ");
      asked.fetch_add(1);
      if (pause > Duration::zero()) LetTimePass(pause);
      const std::string body = template_asked ? R"({"prompt":"text"})" : answer;
      const bool several = request.body.find("\"prompt\":[") != std::string::npos;
      const std::string head = several ? "400 Bad Request" : template_asked ? "200 OK" : status;
      if (!peer.Send("HTTP/1.1 " + head + "\r\nContent-Length: " + std::to_string(body.size()) +
                     "\r\n\r\n" + body)) {
        return;
      }
    }
  }};
};

class PromptTokenizerTest : public testing::Test {
 protected:
  PromptTokenizerTest() {
    OnLoop([this] {
      Add("r1", one_, {{.name = "m"}, {.name = "law", .base = "m"}}, "tcp://127.0.0.1:1");
      Add("r2", two_, {{.name = "other"}}, "");
    });
  }
  ~PromptTokenizerTest() override { loop_.Stop(); }

  void Add(const std::string& id, const TokenizingEngine& engine, std::vector<ServedModel> models,
           const std::string& events) {
    ReplicaConfig config{.id = id, .http = engine.upstream.origin()};
    config.events = events;
    EXPECT_TRUE(replicas_.Add(std::move(config)).ok());
    const Endpoint& endpoint = *replicas_.endpoints().back();
    replicas_.ApplyModels(endpoint, std::optional(ModelList{.models = std::move(models),
                                                            .more = TakesMore::kNothing}));
    replicas_.ApplyProbe(*replicas_.at(endpoint.members.front()).endpoint, OkStatus(),
                         SteadyClock().Now());
  }
  void OnLoop(const std::function<void()>& work) {
    std::promise<void> done;
    boost::asio::post(loop_.executor(), [&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  // Of a prompt that is long enough; null: nothing is known of it.
  SharedPrompt Ask(const std::string& model, const std::string& path = "/v1/chat/completions",
                   size_t length = 2000) {
    const std::string text = std::to_string(++prompts_) + std::string(length, 'x');
    const std::string body = path == "/v1/completions"
                                 ? R"({"prompt":[")" + text + R"("],"model":")" + model + "\"}"
                                 : R"({"messages":[{"role":"user","content":")" + text +
                                       R"("}],"input":"x","model":")" + model + "\"}";
    const auto ask = [&]() -> boost::asio::awaitable<SharedPrompt> {
      Result<SharedPrompt> answer = co_await tokenizer_.Tokenize(path, body);
      co_return answer.ok() ? *std::move(answer) : nullptr;
    };
    return boost::asio::co_spawn(loop_.executor(), ask(), boost::asio::use_future).get();
  }
  TokenSource SourceOf(const SharedPrompt& prompt) {
    EXPECT_NE(prompt, nullptr);
    return prompt == nullptr ? TokenSource{255} : prompt->source;
  }

  TokenizingEngine one_, two_;
  int prompts_ = 0;
  http::HttpLoop loop_{1};
  http::UpstreamPool pool_{loop_};
  MetricsRegistry metrics_;
  StandInAgents agents_;
  ReplicaSet replicas_{HealthOptions{}};
  PromptTokenizer tokenizer_{
      replicas_,
      agents_,
      pool_,
      metrics_,
      {.local = {.deadline = seconds(60)}, .engine = {.deadline = seconds(60)}}};
};

// D4: engines' /tokenize takes no list.
TEST_F(PromptTokenizerTest, EnginesAreAskedForTheFirstOfAListOfPrompts) {
  EXPECT_EQ(SourceOf(Ask("m", "/v1/completions")), TokenSource::kEngine);
}

// B4: what an agent tells without tokens names no block of an adapter.
TEST_F(PromptTokenizerTest, AnAdaptersPromptIsAskedOfThoseWhoTellTokens) {
  agents_.there = true;
  EXPECT_EQ(SourceOf(Ask("m")), TokenSource::kAgent);
  const SharedPrompt adapted = Ask("law");
  EXPECT_EQ(SourceOf(adapted), TokenSource::kEngine);
  EXPECT_TRUE(adapted->has_tokens());
  EXPECT_EQ(adapted->adapter, "law");
  const SharedPrompt unknown = Ask(R"(m","lora_path":"art)");
  EXPECT_EQ(SourceOf(unknown), TokenSource::kEngine);
  EXPECT_EQ(unknown->adapter, "art");
}

// A model whose replicas publish nothing is presumed by its text, which costs nobody a question.
TEST_F(PromptTokenizerTest, OnlyEnginesThatPublishEventsAreAskedForTheirModels) {
  EXPECT_EQ(SourceOf(Ask("m")), TokenSource::kEngine);
  EXPECT_EQ(SourceOf(Ask("other")), TokenSource::kText);
  EXPECT_EQ(one_.asked, 1);
  EXPECT_EQ(two_.asked, 0);
}

// Both are read on the loop, where everybody waits for it.
TEST_F(PromptTokenizerTest, EnginesAreAskedAboutNothingThatTakesTheLoopLong) {
  EXPECT_EQ(SourceOf(Ask("m", "/v1/chat/completions", 900 << 10)), TokenSource::kEngine);
  EXPECT_EQ(SourceOf(Ask("m", "/v1/chat/completions", 1100 << 10)), TokenSource::kText);
  EXPECT_EQ(one_.asked, 1);
  std::string many = R"({"tokens":[1)";
  while (many.size() < 5u << 20) many += ",123456";
  one_.answer = many + "]}";
  EXPECT_EQ(SourceOf(Ask("m", "/v1/chat/completions")), TokenSource::kText);
  EXPECT_EQ(one_.asked, 2);
}

TEST_F(PromptTokenizerTest, AnEnginesTokensOfAPromptThatItCutsAreNotItsPrompt) {  // A8
  const auto ask = [this](int most) {
    return Ask(R"(m","truncate_prompt_tokens":)" + std::to_string(most) + R"(,"user":"u)");
  };
  EXPECT_EQ(SourceOf(ask(3000)), TokenSource::kEngine);
  // 500 chunks of its text would do.
  one_.answer = R"({"tokens":[1)";
  for (int i = 0; i < 600; ++i) one_.answer += ",1";
  one_.answer += "]}";
  EXPECT_EQ(ask(600), nullptr);
  EXPECT_EQ(SourceOf(ask(601)), TokenSource::kEngine);
  EXPECT_EQ(one_.asked, 3);
}

TEST_F(PromptTokenizerTest, NobodyIsAskedAboutAPromptThatIsKnownToBeCut) {  // A8
  tokenizer_.local().models().Add("m", ModelFolder(KindNamed("gpt4")).Load());
  agents_.there = true;
  const auto ask = [this](const char* most) {
    const std::string text = "several words of a text " + std::string(2000, 'x');
    const std::string body =
        R"({"model":"m","prompt":")" + text + R"(","truncate_prompt_tokens":)" + most + "}";
    const auto answer = [&]() -> boost::asio::awaitable<std::string> {
      const Result<SharedPrompt> prompt = co_await tokenizer_.Tokenize("/v1/completions", body);
      co_return prompt.ok() ? TokenSourceName((*prompt)->source) : prompt.status().ToString();
    };
    return boost::asio::co_spawn(loop_.executor(), answer(), boost::asio::use_future).get();
  };
  EXPECT_EQ(ask("null"), "local");
  EXPECT_NE(ask("5").find("leaves out"), std::string::npos);
  EXPECT_EQ(one_.asked, 0);
  EXPECT_NE(metrics_.RenderPrometheusText().find(
                "ember_router_tokenize_local_failures_total{reason=\"truncated\"} 1"),
            std::string::npos);
}

TEST_F(PromptTokenizerTest, AnEngineThatTellsNoTokensIsAskedAFewTimesOnly) {  // D4
  one_.status = "404 Not Found";
  for (int i = 0; i < 20; ++i) EXPECT_EQ(SourceOf(Ask("m")), TokenSource::kText);
  EXPECT_LT(one_.asked, 20) << "in three ways each time";
}

TEST_F(PromptTokenizerTest, WhoeverTellsTheTokensWhatElseIsAskedIsKnown) {  // A8
  const auto check = [this](const std::string& model, TokenSource source) {
    const auto ask = [&](const std::string& members) {
      const SharedPrompt prompt =
          Ask(model + R"(",)" + members + R"("user":"u)", "/v1/completions");
      EXPECT_EQ(SourceOf(prompt), source) << members;
      return prompt;
    };
    EXPECT_TRUE(ask("")->counted_alone());
    EXPECT_TRUE(ask(R"("n":2,)")->several);
    EXPECT_TRUE(ask(R"("prompt_logprobs":1,)")->prompt_logprobs);
    EXPECT_TRUE(ask(R"("truncate_prompt_tokens":-1,)")->doubtful);
  };
  check("m", TokenSource::kEngine);
  check("other", TokenSource::kText);
  tokenizer_.local().models().Add("m", ModelFolder(KindNamed("gpt4")).Load());
  check("m", TokenSource::kLocal);
}

// Engines tokenize chats and completions only, and are not thought silent for it.
TEST_F(PromptTokenizerTest, OtherApisAreNotAskedOfEngines) {
  for (int i = 0; i < 6; ++i) {
    Ask("m", "/v1/responses");
    Ask("m", "/v1/messages");
  }
  EXPECT_EQ(one_.asked, 0);
  EXPECT_EQ(SourceOf(Ask("m")), TokenSource::kEngine);
}

TEST_F(PromptTokenizerTest, TheEndpointItselfKnowsWhatEnginesTokenize) {
  EngineEndpoint endpoint(pool_);
  for (const PromptApi api : {PromptApi::kResponses, PromptApi::kAnthropic}) {
    const auto ask = [&]() -> boost::asio::awaitable<StatusCode> {
      const auto answer = co_await endpoint.Tokenize({.id = "r1", .http = one_.upstream.origin()},
                                                     api, "{}", seconds(60));
      co_return answer.status().code();
    };
    EXPECT_EQ(boost::asio::co_spawn(loop_.executor(), ask(), boost::asio::use_future).get(),
              StatusCode::kInvalid);
  }
  EXPECT_EQ(one_.asked, 0);
}

// llama.cpp's server is asked three times for one chat.
TEST_F(PromptTokenizerTest, OneDeadlineIsForAllThatAnEngineIsAsked) {
  EngineEndpoint endpoint(pool_);
  one_.status = "404 Not Found";
  const auto ask = [&](Duration deadline) {
    const auto asked = [&]() -> boost::asio::awaitable<StatusCode> {
      const auto answer = co_await endpoint.Tokenize({.id = "r1", .http = one_.upstream.origin()},
                                                     PromptApi::kChat, "{}", deadline);
      co_return answer.status().code();
    };
    return boost::asio::co_spawn(loop_.executor(), asked(), boost::asio::use_future).get();
  };
  EXPECT_EQ(ask(seconds(60)), StatusCode::kInvalid) << "whose last answer is 404 here, too";
  EXPECT_EQ(one_.asked, 3);
  one_.pause = milliseconds(120);
  EXPECT_EQ(ask(milliseconds(200)), StatusCode::kDeadline);
  EXPECT_LT(one_.asked, 6) << "the last question was never asked";
}

}  // namespace
}  // namespace ember::router
