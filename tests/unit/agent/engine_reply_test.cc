#include "client/agent/engine_reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/agent/reply_observer.h"

namespace ember::agent {
namespace {
using ::testing::ElementsAre;

// As llama-server 0.6 sent them.
constexpr std::string_view kFinalEvent =
    R"({"choices":[{"finish_reason":"length","index":0,"delta":{}}],"created":1796004081,"id":"chatcmpl-F","model":"smol","object":"chat.completion.chunk","timings":{"cache_n":30,"prompt_n":31,"prompt_ms":124.198,"prompt_per_token_ms":4.0,"predicted_n":3,"predicted_ms":33.452}})";

TEST(EngineReplyTest, ReadsProps) {
  const auto props = ReadProps(
      R"({"default_generation_settings":{"params":{},"n_ctx":8192},"total_slots":2,"model_alias":"smol",
          "model_path":"/m.gguf","modalities":{"vision":false,"audio":true},"build_info":"b1-2"})");
  ASSERT_TRUE(props.ok()) << props.status().ToString();
  EXPECT_EQ(props->build, "b1-2");
  EXPECT_EQ(props->context_tokens, 8192u);
  EXPECT_EQ(props->slots, 2u);
  EXPECT_TRUE(props->has_media);
  for (const char* bad : {"", "[]", "{}", R"({"build_info":"b","model_path":"/m","total_slots":0})",
                          R"({"build_info":"b","model_path":"/m","total_slots":2})"}) {
    EXPECT_FALSE(ReadProps(bad).ok()) << bad;
  }
}

TEST(EngineReplyTest, ReadsTokens) {
  const auto tokens = ReadTokens(R"({"tokens":[1,4093,15876]})");
  ASSERT_TRUE(tokens.ok());
  EXPECT_THAT(*tokens, ElementsAre(1, 4093, 15876));
  for (const char* bad : {"{}", R"({"tokens":[-1]})", R"({"tokens":[1.5]})",
                          R"({"tokens":[{"id":1}]})", R"({"tokens":[4294967296]})"}) {
    EXPECT_FALSE(ReadTokens(bad).ok()) << bad;
  }
}

TEST(EngineReplyTest, ReadsSlotActions) {
  const auto saved = ReadSlotAction(R"({"id_slot":1,"filename":"x","n_saved":5,"n_written":828})");
  ASSERT_TRUE(saved.ok());
  EXPECT_EQ(saved->tokens, 5u);
  EXPECT_EQ(saved->bytes, 828u);
  EXPECT_TRUE(ReadSlotAction(R"({"n_restored":5,"n_read":828})").ok());
  EXPECT_FALSE(ReadSlotAction(R"({"n_restored":5})").ok());
}

TEST(EngineReplyTest, ReadsTimings) {
  const auto timings = ReadTimings(kFinalEvent);
  ASSERT_TRUE(timings);
  EXPECT_EQ(timings->cached_tokens, 30u);
  EXPECT_EQ(timings->computed_tokens, 31u);
  EXPECT_DOUBLE_EQ(timings->prompt_ms, 124.198);
  EXPECT_EQ(timings->predicted_tokens, 3u);
  EXPECT_FALSE(ReadTimings(R"({"timings":{}})"));
  EXPECT_FALSE(ReadTimings(R"({"content":"\"timings\""})"));
  EXPECT_FALSE(ReadTimings("[DONE]"));
}

TEST(ReplyObserverTest, FindsTheTimingsOfAStreamHoweverItIsCut) {
  const std::string stream =
      "data: {\"choices\":[]}\n\n: ping\n\ndata: " + std::string(kFinalEvent) +
      "\n\ndata: [DONE]\n\n";
  for (size_t step = 1; step < stream.size(); ++step) {
    ReplyObserver observer(true);
    for (size_t at = 0; at < stream.size(); at += step)
      observer.Feed(std::string_view(stream).substr(at, step));
    const auto timings = observer.Timings();
    ASSERT_TRUE(timings) << step;
    EXPECT_EQ(timings->cached_tokens, 30u);
  }
}

TEST(ReplyObserverTest, FindsTheTimingsOfAWholeReply) {
  ReplyObserver observer(false);
  observer.Feed(kFinalEvent.substr(0, 50));
  EXPECT_FALSE(observer.Timings());
  observer.Feed(kFinalEvent.substr(50));
  EXPECT_TRUE(observer.whole());
  ASSERT_TRUE(observer.Timings());
  EXPECT_EQ(observer.Timings()->computed_tokens, 31u);
}

}  // namespace
}  // namespace ember::agent
