// The front's pure parts: what a request asks of the router, and what is read in JSON.
#include <gtest/gtest.h>

#include "router/front/fan_out.h"
#include "router/front/json_reader.h"
#include "router/front/reply_observer.h"
#include "router/front/routing_options.h"
#include "router/policy/registry.h"
#include "router/tokenize/prompt_cache.h"

namespace ember::router {
namespace {

http::Request RequestTo(std::string_view target, http::Headers headers = {}) {
  http::Request request;
  request.method = "POST";
  request.SetTarget(target);
  request.headers = std::move(headers);
  return request;
}

RoutingOptions OptionsOf(std::string_view target, http::Headers headers = {}) {
  auto options =
      RoutingOptions::Of(RequestTo(target, std::move(headers)), FindPolicy("cache_aware"), true);
  EXPECT_TRUE(options.ok());
  return *options;
}

TEST(RoutingOptions, PolicyByHeaderThenBySticky) {
  EXPECT_EQ(OptionsOf("/v1/completions").policy->name(), "cache_aware");
  EXPECT_EQ(OptionsOf("/v1/completions?sticky=0").policy->name(), "random");
  EXPECT_EQ(OptionsOf("/v1/completions?sticky=1").policy->name(), "sticky");
  EXPECT_EQ(OptionsOf("/v1/completions?sticky=0", {{"X-Ember-Policy", "prefix"}}).policy->name(),
            "prefix");
  const auto bad = RoutingOptions::Of(RequestTo("/v1/x", {{"x-ember-policy", "nope"}}),
                                      FindPolicy("random"), true);
  EXPECT_EQ(bad.status().code(), StatusCode::kInvalid);
  EXPECT_NE(bad.status().message().find("round_robin"), std::string_view::npos);
}

TEST(RoutingOptions, WhereItIsNotAllowedNamingAPolicyIsRefused) {
  const auto status = [&](std::string_view target, http::Headers headers) {
    return RoutingOptions::Of(RequestTo(target, std::move(headers)), FindPolicy("sticky"), false)
        .status();
  };
  EXPECT_TRUE(status("/v1/x", {}).ok());
  EXPECT_EQ(status("/v1/x", {{"x-ember-policy", "random"}}).code(), StatusCode::kInvalid);
  EXPECT_EQ(status("/v1/x?sticky=0", {}).code(), StatusCode::kInvalid);
}

TEST(RoutingOptions, OnlyOurOwnParameterIsTakenOutOfTheTarget) {
  EXPECT_EQ(OptionsOf("/v1/models?sticky=0").target, "/v1/models");
  EXPECT_EQ(OptionsOf("/v1/models?a=1&sticky=0&b=%20").target, "/v1/models?a=1&b=%20");
  EXPECT_EQ(OptionsOf("/v1/models?sticky&&x").target, "/v1/models?&x");
  EXPECT_EQ(OptionsOf("/v1/models?").target, "/v1/models?");
  EXPECT_EQ(OptionsOf("/v1/models?nonsticky=1&a=sticky=0").target,
            "/v1/models?nonsticky=1&a=sticky=0");
}

TEST(RoutingOptions, OnlyPostsOfPromptsAreTokenized) {
  EXPECT_TRUE(OptionsOf("/v1/chat/completions?x=1").has_prompt);
  EXPECT_TRUE(OptionsOf("/v1/completions").has_prompt);
  EXPECT_FALSE(OptionsOf("/v1/embeddings").has_prompt);
  EXPECT_FALSE(OptionsOf("/v1/completions", {{"x-ember-store", "OFF"}}).use_store);
  EXPECT_TRUE(OptionsOf("/v1/completions", {{"x-ember-store", "on"}}).use_store);
  EXPECT_FALSE(OptionsOf("/v1/completions", {{"x-ember-cache", "off"}}).use_cache);
}

TEST(JsonReader, TellsObjectsFromTheRest) {
  EXPECT_TRUE(CheckIsObject(" {\"a\":1,\"a\":2} ").ok());
  for (const char* bad : {"", "  ", "[", "\"x\"", "null", "[1]", "{", "{\"a\":NaN}",
                          "{\"a\":\"\\ud800\"}", "{\"a\":\"\xff\"}", "{} {}"}) {
    EXPECT_EQ(CheckIsObject(bad).code(), StatusCode::kInvalid) << bad;
  }
  EXPECT_FALSE(CheckIsObject(std::string(10000, '[')).ok());
}

// As schemas of tools have them.
TEST(JsonReader, NumbersMayHaveAnySize) {
  const std::string long_integer(400, '9');
  for (const std::string& number :
       {std::string("18446744073709551616"), std::string("-9223372036854775809"), long_integer,
        "-" + long_integer, std::string("1e309"), std::string("-1.5E+400"), std::string("1e-999"),
        "0." + long_integer + "e99999999999999999999"}) {
    EXPECT_TRUE(CheckIsObject("{\"a\":[" + number + "]}").ok()) << number;
    EXPECT_TRUE(CheckIsObject("{\"a\":" + number + ",\"b\":\"\\\"1x\"}").ok()) << number;
    for (const std::string& bad :
         {number + "x", number + ".", number + " 1", "+" + number, "0" + number, number + "-1",
          "--" + number, number + "e", number + "\"b\"", number + ",", number + ",\"b\":NaN",
          number + ",\"b\":-", number + ",\"b\":01", number + ",\"b\":1.", number + ",\"b\":.5",
          number + ",\"b\":\"\\ud800\""}) {
      EXPECT_FALSE(CheckIsObject("{\"a\":" + bad + "}").ok()) << bad;
    }
    EXPECT_FALSE(CheckIsObject("[" + number + "]").ok());
    EXPECT_FALSE(CheckIsObject("{\"a\":" + number).ok());
  }
}

TEST(FanOut, IsCappedHoweverItIsWritten) {
  const FanOutCaps caps{.choices = 4, .stops = 2};
  const std::string far(100000, 'x');
  for (const std::string& fits :
       {std::string("{}"), std::string(R"({"n":4,"best_of":4.0,"stop":["a","b"]})"),
        std::string(R"({"n":null,"stop":"abc","best_of":"4"})"), std::string(R"({"n":-1})"),
        std::string(R"({"n":" +4 ","best_of":"0.4e1"})"), std::string(R"({"n":""})"),
        std::string(R"({"messages":[{"n":99,"stop":[1,2,3]}],"x":"\"n\":99"})"),
        std::string("no object"), std::string(R"({"n":)"), std::string(R"([{"n":99}])")}) {
    EXPECT_TRUE(caps.Check(fits).ok()) << fits;
  }
  for (const std::string& over :
       {std::string(R"({"n":5})"), std::string(R"({"best_of":16384})"),
        std::string(R"({"n":1,"n":5})"), std::string(R"({"\u006e":5})"),
        std::string(R"({"n": 5.0 })"), std::string(R"({"n":0.5e1})"), std::string(R"({"n":"5"})"),
        std::string(R"({"n":1e999})"), std::string(R"({"stop":["a","b",["c"]]})"),
        std::string(R"({"stop_sequences":["a","b","c"]})"),
        // An engine may take for a number what we don't.
        std::string(R"({"n":"1_000"})"), std::string(R"({"n":"\u0039\u0039"})"),
        std::string(R"({"best_of":"０９"})"), std::string(R"({"n":"0x5"})"),
        std::string(R"({"n":"inf"})"), std::string(R"({"best_of":"many"})"),
        "{\"messages\":[{\"content\":\"" + far + "\"}],\"n\":5}"}) {
    EXPECT_EQ(caps.Check(over).code(), StatusCode::kInvalid) << over.substr(0, 80);
  }
}

TEST(JsonReader, TellsErrorEventsAndWhoseFaultTheyAre) {
  for (const char* none :
       {"", "[DONE]", R"({"choices":[{"delta":{"content":"\"error\""}}]})", R"({"error":null})",
        R"({"type":"response.completed","response":{"error":null}})", R"({"x":"error"})",
        R"({"error":)"}) {
    EXPECT_EQ(ReadErrorEvent(none), ErrorEvent::kNone) << none;
  }
  for (const char* servers :
       {R"({"error":{"message":"m","type":"InternalServerError","code":500}})", R"({"error":"m"})",
        R"({"error":{"code":"server_error"}})", R"({"object":"error","message":"m","code":500})",
        R"({"type":"error","error":{"type":"overloaded_error"}})",
        R"({"type":"error","code":"server_error","message":"m"})",
        R"({"type":"response.failed","response":{"error":{"code":"server_error"}}})"}) {
    EXPECT_EQ(ReadErrorEvent(servers), ErrorEvent::kServer) << servers;
  }
  for (const char* clients : {R"({"error":{"message":"m","type":"BadRequestError","code":400}})",
                              R"({"object":"error","message":"m","code":422})",
                              R"({"type":"error","error":{"type":"invalid_request_error"}})"}) {
    EXPECT_EQ(ReadErrorEvent(clients), ErrorEvent::kClient) << clients;
  }
}

TEST(JsonReader, ReadsCountsOfEnginesAndOfOpenAi) {
  const auto llama =
      ReadUsage(R"({"timings":{"cache_n":900,"prompt_n":100},"usage":{"prompt_tokens":1}})");
  ASSERT_TRUE(llama);
  EXPECT_EQ(llama->cached_tokens, 900u);
  EXPECT_EQ(llama->computed_tokens, 100u);
  const auto openai =
      ReadUsage(R"({"usage":{"prompt_tokens":50,"prompt_tokens_details":{"cached_tokens":48}}})");
  ASSERT_TRUE(openai);
  EXPECT_EQ(openai->cached_tokens, 48u);
  EXPECT_EQ(openai->computed_tokens, 2u);
  EXPECT_TRUE(openai->counted);
  const auto response = ReadUsage(
      R"({"response":{"usage":{"input_tokens":50,"input_tokens_details":{"cached_tokens":48}}}})");
  ASSERT_TRUE(response);
  EXPECT_EQ(response->computed_tokens, 2u);
  // Anthropic's input is what no cache had; as whole replies have it, and events that begin one.
  for (const char* shape : {R"({"usage":{"input_tokens":18,"cache_read_input_tokens":32}})",
                            R"({"type":"message_start","message":{"usage":{"input_tokens":10,)"
                            R"("cache_creation_input_tokens":8,"cache_read_input_tokens":32}}})"}) {
    const auto message = ReadUsage(shape);
    ASSERT_TRUE(message) << shape;
    EXPECT_TRUE(message->counted);
    EXPECT_EQ(message->cached_tokens, 32u);
    EXPECT_EQ(message->computed_tokens, 18u);
  }
  EXPECT_FALSE(ReadUsage(R"({"usage":{"prompt_tokens":18446744073709551615}})"));
  for (const char* silent : {R"({"usage":{"prompt_tokens":7}})",
                             R"({"usage":{"input_tokens":7,"cache_read_input_tokens":0}})",
                             R"({"usage":{"prompt_tokens":7,"prompt_tokens_details":null}})"}) {
    EXPECT_EQ(ReadUsage(silent)->computed_tokens, 7u) << silent;
    EXPECT_FALSE(ReadUsage(silent)->counted) << silent;
  }
  for (const char* long_answer :
       {R"({"usage":{"prompt_tokens":7,"completion_tokens":300}})",
        R"({"usage":{"input_tokens":7,"output_tokens":300}})",
        R"({"usage":{"input_tokens":7,"cache_read_input_tokens":0,"output_tokens":300}})",
        R"({"timings":{"cache_n":6,"prompt_n":1,"predicted_n":300}})"}) {
    EXPECT_EQ(ReadUsage(long_answer)->output_tokens, 300u) << long_answer;
  }
  EXPECT_EQ(ReadUsage(R"({"usage":{"prompt_tokens":7}})")->output_tokens, 0u);
  // More cached than there were is no count.
  const auto more =
      ReadUsage(R"({"usage":{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":9}}})");
  EXPECT_EQ(more->computed_tokens, 5u);
  EXPECT_FALSE(more->counted);
  for (const char* none : {"", "[DONE]", "{\"usage\":null}", "{\"usage\":{\"prompt_tokens\":-1}}",
                           "{\"usage\":", "{\"text\":\"\\\"usage\\\"\"}"}) {
    EXPECT_FALSE(ReadUsage(none)) << none;
  }
}

TEST(ReplyObserver, CountsAStreamCutAtEveryByteAndAWholeReply) {
  const std::string events =
      ": comment\r\n\r\ndata:{\"choices\":[{\"delta\":{\"content\":\"\xe4\xbd\xa0\"}}]}\n\n"
      "data: {\"usage\":{\"prompt_tokens\":12}}\r\n\r\ndata: [DONE]\n\n";
  for (size_t cut = 0; cut <= events.size(); ++cut) {
    ReplyObserver observer;
    observer.Feed(events.substr(0, cut), true);
    observer.Feed(events.substr(cut), true);
    ASSERT_TRUE(observer.Usage()) << cut;
  }
  ReplyObserver whole;
  for (const char c : std::string("{\"usage\":{\"prompt_tokens\":12}}")) whole.Feed({&c, 1}, false);
  ASSERT_TRUE(whole.Usage());
  EXPECT_EQ(whole.Usage()->computed_tokens, 12u);
}

TEST(ReplyObserver, AMessagesEndDoesNotTakeBackWhatItsBeginningCounted) {
  ReplyObserver observer;
  observer.Feed(
      "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":18,"
      "\"cache_read_input_tokens\":32}}}\n\nevent: message_delta\n"
      "data: {\"usage\":{\"input_tokens\":50,\"output_tokens\":3}}\n\n",
      true);
  ASSERT_TRUE(observer.Usage());
  EXPECT_TRUE(observer.Usage()->counted);
  EXPECT_EQ(observer.Usage()->cached_tokens, 32u);
}

TEST(ReplyObserver, LooksAtNothingBeyondItsBound) {
  ReplyObserver observer;
  const std::string piece(1 << 18, 'x');
  for (int i = 0; i < 64; ++i) observer.Feed(piece, false);
  observer.Feed("{\"usage\":{\"prompt_tokens\":12}}", false);
  EXPECT_FALSE(observer.Usage());
}

TEST(PromptCache, IsBoundedAndForgetsTheLeastRecentlyUsed) {
  PromptCache cache(3 * 300);
  const auto prompt = std::make_shared<const TokenizedPrompt>();
  const auto digest = [](const char* body) {
    return PromptCache::DigestOf("/v1/completions", body);
  };
  EXPECT_NE(digest("a"), PromptCache::DigestOf("/v1/chat/completions", "a"));
  for (const char* body : {"a", "b", "c"}) cache.Put(digest(body), prompt);
  EXPECT_NE(cache.Find(digest("a")), nullptr);
  cache.Put(digest("d"), prompt);
  EXPECT_EQ(cache.Find(digest("b")), nullptr);
  EXPECT_NE(cache.Find(digest("a")), nullptr);
  TokenizedPrompt large;
  large.chain.resize(1000);
  cache.Put(digest("large"), std::make_shared<const TokenizedPrompt>(large));
  EXPECT_EQ(cache.size(), 0u) << "larger than the whole cache";
  cache.Put(digest("a"), prompt);
  cache.Clear();
  EXPECT_EQ(cache.Find(digest("a")), nullptr);
}

}  // namespace
}  // namespace ember::router
