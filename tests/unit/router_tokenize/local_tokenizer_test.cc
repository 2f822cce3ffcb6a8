// The tokens of a prompt are those of its whole text, tokenized by the reference: for every kind of
// model, for chats that grow, with texts of all scripts and all that templates look for.
#include "router/tokenize/local_tokenizer.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <nlohmann/json.hpp>

#include "proto/base/random.h"
#include "router/tokenize/cut_points.h"
#include "router/tokenize/text_encoder.h"
#include "router/tokenize/text_walk.h"
#include "tests/unit/router_tokenize/model_folder.h"

namespace ember::router {
namespace {

using nlohmann::ordered_json;

constexpr const char* kWords[] = {" the",
                                  " store",
                                  " of",
                                  "word",
                                  " It's",
                                  " don't",
                                  " 12345",
                                  "3.14",
                                  "...",
                                  ",",
                                  ";",
                                  "\n",
                                  "\n\n",
                                  "\r\n",
                                  "   ",
                                  "\t",
                                  " {\n    return x;\n}",
                                  "你好，",
                                  "世界。",
                                  "日本語の",
                                  "テキスト、",
                                  " 한국어",
                                  "Привет",
                                  " мир",
                                  "ภาษาไทย",
                                  "हिन्दी",
                                  "e\u0301",
                                  "\u0301",
                                  "😀",
                                  "👨‍👩‍👧",
                                  "\u00a0",
                                  "\u3000",
                                  "\u200b",
                                  "ß",
                                  "İ",
                                  "<|im_end|>",
                                  "<|im_start|>",
                                  "<|endoftext|>",
                                  "<|im_",
                                  "|>",
                                  "\"",
                                  "\\",
                                  "\\n",
                                  "/",
                                  "'",
                                  "\u0001",
                                  "\u007f",
                                  "\u2028",
                                  "<tools>",
                                  "{{ x }}",
                                  " ABC",
                                  "camelCase",
                                  "_x",
                                  "(y)"};

// The tokens around the place where two differ.
std::string Around(const ModelTokenizer& tokenizer, const std::vector<TokenId>& ids, ptrdiff_t at) {
  std::string out = tokenizer.fast() ? "fast:" : "reference:";
  for (ptrdiff_t i = std::max<ptrdiff_t>(0, at - 4);
       i < std::min<ptrdiff_t>(at + 4, static_cast<ptrdiff_t>(ids.size())); ++i) {
    out += " " + std::to_string(ids[static_cast<size_t>(i)]);
  }
  return out;
}

class RandomChat {
 public:
  explicit RandomChat(uint64_t seed) : random_(seed) {}
  uint64_t Below(uint64_t n) { return random_.Next() % n; }
  std::string Text(size_t words) {
    std::string text;
    for (size_t i = 0; i < words; ++i) {
      if (Below(3) != 0) {
        text += ' ';
        for (uint64_t n = 1 + Below(8); n > 0; --n) text += static_cast<char>('a' + Below(26));
      } else {
        text += kWords[Below(std::size(kWords))];
      }
    }
    // Now and then what a template looks for.
    if (Below(12) == 0) text += "<think>so</think>\n\nyes";
    if (Below(40) == 0) text = "<tool_response>" + text + "</tool_response>";
    return text;
  }
  size_t Length() { return Below(4) == 0 ? Below(2500) : Below(80); }
  ordered_json Message(const char* role) {
    const std::string text = Text(Length());
    if (Below(4) != 0) return {{"role", role}, {"content", text}};
    ordered_json parts = ordered_json::array({{{"type", "text"}, {"text", text}}});
    if (Below(2) == 0) parts.push_back({{"type", "text"}, {"text", Text(20)}});
    return {{"content", parts}, {"role", role}};
  }
  void AddTurn(ordered_json* messages) {
    messages->push_back(Message("user"));
    if (Below(4) == 0) {
      const ordered_json arguments = {{"content", Text(30)}, {"n", 1.5}};
      messages->push_back({{"role", "assistant"},
                           {"content", nullptr},
                           {"tool_calls",
                            {{{"id", "c"},
                              {"type", "function"},
                              {"function", {{"name", "f"}, {"arguments", arguments.dump()}}}}}}});
      ordered_json result = Message("tool");
      result["tool_call_id"] = "c";
      messages->push_back(std::move(result));
    }
    messages->push_back(Message("assistant"));
  }
  std::string Body(ordered_json messages) {
    ordered_json body = {{"model", "m"}, {"temperature", 0.5}, {"messages", std::move(messages)}};
    if (Below(3) == 0) {
      body["tools"] = {{{"type", "function"}, {"function", {{"name", "f"}, {"strict", false}}}}};
    }
    if (Below(5) == 0) body["add_generation_prompt"] = false;
    return body.dump(-1, ' ', Below(2) == 0);
  }

 private:
  SeededRandom random_;
};

class LocalTokenizerTest : public testing::Test {
 protected:
  void Use(const std::shared_ptr<const ModelTokenizer>& tokenizer,
           LocalTokenizerOptions options = {}) {
    options.min_body_bytes = 0;
    options.deadline = seconds(60);
    reference_ = tokenizer;
    tokenizer_ = std::make_unique<LocalTokenizer>(metrics_, std::move(options), &directory_);
    tokenizer_->models().Add("m", tokenizer);
  }
  LocalTokenizer::Answer Ask(std::string_view path, std::string_view body) {
    context_.restart();
    auto answer =
        boost::asio::co_spawn(context_, tokenizer_->Tokenize(path, body), boost::asio::use_future);
    context_.run();
    return answer.get();
  }
  // Of the whole text of a chat, rendered without slots.
  PromptReason Whole(std::string_view body, std::vector<TokenId>* out) const {
    PromptOutline outline;
    PromptReason reason = PromptOutline::Of(PromptApi::kChat, body, 0, &outline);
    EXPECT_TRUE(outline.slots.empty());
    ModelTokenizer::Rendered rendered;
    if (reason == PromptReason::kNone)
      reason = reference_->Render(PromptApi::kChat, outline.request, &rendered);
    if (reason == PromptReason::kNone) reason = reference_->Encode(rendered.text, out, true);
    return reason;
  }
  void ExpectWhole(const std::string& body) {
    std::vector<TokenId> whole;
    const PromptReason reason = Whole(body, &whole);
    const LocalTokenizer::Answer answer = Ask("/v1/chat/completions", body);
    ASSERT_EQ(PromptReasonName(answer.reason), PromptReasonName(reason)) << body.substr(0, 300);
    if (reason != PromptReason::kNone) return;
    const std::vector<TokenId> tokens = answer.prompt->AllTokens();
    const auto differ = std::mismatch(tokens.begin(), tokens.end(), whole.begin(), whole.end());
    ASSERT_TRUE(tokens == whole) << "from token " << differ.first - tokens.begin() << " of "
                                 << whole.size() << " on, "
                                 << Around(*reference_, whole, differ.second - whole.begin())
                                 << "\nin " << body.substr(0, 3000);
    ASSERT_EQ(answer.prompt->token_count, whole.size());
    ++compared_;
  }
  void ChatsEqualWholeTexts(const std::shared_ptr<const ModelTokenizer>& tokenizer, int chats) {
    Use(tokenizer);
    for (int seed = 0; seed < chats && !HasFatalFailure(); ++seed) {
      RandomChat chat(static_cast<uint64_t>(seed));
      ordered_json messages = ordered_json::array();
      // Chats share their system prompts.
      if (seed % 3 != 0) messages.push_back(RandomChat(1000 + seed % 5).Message("system"));
      for (int turn = 0; turn < 4 && !HasFatalFailure(); ++turn) {
        chat.AddTurn(&messages);
        ordered_json asked = messages;
        asked.push_back(chat.Message("user"));
        const std::string body = chat.Body(asked);
        ExpectWhole(body);
        if (turn == 2) ExpectWhole(body);
      }
    }
    EXPECT_GT(compared_, chats);
  }

  MetricsRegistry metrics_;
  ModelDirectory directory_;
  boost::asio::io_context context_;
  std::shared_ptr<const ModelTokenizer> reference_;
  std::unique_ptr<LocalTokenizer> tokenizer_;
  int compared_ = 0;
};

class EveryKind : public LocalTokenizerTest, public testing::WithParamInterface<ModelKind> {};

TEST_P(EveryKind, ChatsThatGrowHaveTheTokensOfTheirWholeTexts) {
  ChatsEqualWholeTexts(ModelFolder(GetParam()).Load(), 24);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryKind, testing::ValuesIn(ModelKinds()),
                         [](const auto& info) { return info.param.name; });

// vLLM names an adapter as the model; its tokens are its base's.
// Many large bodies must not hold up those who want tokens, nor the other way round.
TEST(LocalTokenizerThreads, WhatIsReadAsideAndWhatIsTokenizedNeverWaitForEachOther) {
  boost::asio::io_context loop;
  MetricsRegistry metrics;
  LocalTokenizer tokenizer(metrics, {.max_waiting = 1});
  int aside = 0, refused = 0;
  for (const bool block_aside : {true, false}) {
    std::promise<void> release;
    const auto blocked = [&, gate = release.get_future().share()] { gate.wait(); };
    const auto work = [&]() -> boost::asio::awaitable<void> {
      if (block_aside) {
        EXPECT_TRUE(co_await tokenizer.OnThread([] {}));
      } else {
        co_await tokenizer.Aside([] {});
        if (!co_await tokenizer.OnThread([] {})) ++refused;
      }
      release.set_value();
    };
    const auto wait = [&]() -> boost::asio::awaitable<void> {
      if (block_aside) {
        co_await tokenizer.Aside(blocked);
        ++aside;
      } else {
        EXPECT_TRUE(co_await tokenizer.OnThread(blocked));
      }
    };
    for (int i = 0; i < (block_aside ? 100 : 1); ++i) {
      boost::asio::co_spawn(loop, wait(), boost::asio::detached);
    }
    auto done = boost::asio::co_spawn(loop, work(), boost::asio::use_future);
    loop.run();
    loop.restart();
    done.get();
  }
  EXPECT_EQ(aside, 100) << "none is refused";
  EXPECT_EQ(refused, 1);
}

TEST_F(LocalTokenizerTest, AnAdapterHasItsBasesTokensAndAName) {
  Use(ModelFolder(KindNamed("gpt4")).Load());
  const std::array<ReplicaNumber, 1> replica{0};
  directory_.Set(replica, {.models = {{.name = "m"}, {.name = "law", .base = "m"}},
                           .more = TakesMore::kNothing});
  const auto ask = [&](const char* model) {
    return Ask("/v1/completions", ordered_json{{"model", model}, {"prompt", "a word"}}.dump());
  };
  const LocalTokenizer::Answer base = ask("m"), adapter = ask("law");
  ASSERT_NE(base.prompt, nullptr);
  ASSERT_NE(adapter.prompt, nullptr);
  EXPECT_EQ(adapter.prompt->AllTokens(), base.prompt->AllTokens());
  EXPECT_EQ(adapter.prompt->adapter, "law");
  EXPECT_EQ(base.prompt->adapter, "");
  EXPECT_EQ(ask("medicine").reason, PromptReason::kNoTokenizer);
}

// The engine leaves out some of a longer prompt: what it has then is in no index.
TEST_F(LocalTokenizerTest, APromptThatTheEngineCutsIsNotKnown) {  // A8
  Use(ModelFolder(KindNamed("gpt4")).Load());
  const std::array<ReplicaNumber, 1> replica{0};
  directory_.Set(replica, {.models = {{.name = "m"}}, .more = TakesMore::kNothing});
  const auto ask = [&](const ordered_json& prompt, const ordered_json& most) {
    return Ask(
        "/v1/completions",
        ordered_json{{"model", "m"}, {"prompt", prompt}, {"truncate_prompt_tokens", most}}.dump());
  };
  const SharedPrompt whole = ask("several words of a text", nullptr).prompt;
  ASSERT_NE(whole, nullptr);
  EXPECT_TRUE(whole->counted_alone());
  const LocalTokenizer::Answer fits = ask("several words of a text", whole->token_count);
  ASSERT_NE(fits.prompt, nullptr);
  EXPECT_EQ(fits.prompt->AllTokens(), whole->AllTokens());
  EXPECT_TRUE(fits.prompt->counted_alone());
  const LocalTokenizer::Answer cut = ask("several words of a text", whole->token_count - 1);
  EXPECT_EQ(cut.prompt, nullptr);
  EXPECT_EQ(cut.reason, PromptReason::kTruncated);
  EXPECT_EQ(ask({1, 2, 3}, 2).reason, PromptReason::kTruncated);
  const SharedPrompt context = ask("several words of a text", -1).prompt;
  ASSERT_NE(context, nullptr);
  EXPECT_FALSE(context->counted_alone()) << "how much the model takes is not known";
}

// SGLang's forms, whether or not anybody lists the adapter.
TEST_F(LocalTokenizerTest, AnUnknownAdapterIsNotItsBase) {
  Use(ModelFolder(KindNamed("gpt4")).Load());
  const std::array<ReplicaNumber, 1> replica{0};
  directory_.Set(replica, {.models = {{.name = "m"}, {.name = "law", .base = "m"}},
                           .more = TakesMore::kUnlisted,
                           .adapters_by_colon = true});
  const auto ask = [&](const char* model, const char* lora_path) {
    const auto answer =
        Ask("/v1/completions",
            ordered_json{{"model", model}, {"prompt", "a word"}, {"lora_path", lora_path}}.dump());
    return answer.prompt == nullptr ? "none" : answer.prompt->adapter;
  };
  EXPECT_EQ(ask("m", ""), "");
  EXPECT_EQ(ask("m", "art"), "art");
  EXPECT_EQ(ask("m:art", ""), "art");
  EXPECT_EQ(ask("m:law", ""), "law");
  EXPECT_EQ(ask("law", ""), "") << "SGLang runs its base";
}

// Remembered whole, a text of one stretch bears the name of every text's first stretch.
TEST_F(LocalTokenizerTest, ATextThatMayNotBeCutIsNoBeginningOfALongerOne) {
  const auto tokenizer = ModelFolder(KindNamed("sentencepiece")).Load();
  ASSERT_EQ(tokenizer->cuts(), 0u);
  Use(tokenizer);
  std::string text;
  while (text.size() < TextWalk::kStretch) text += " the";
  text.resize(TextWalk::kStretch);
  for (const std::string& prompt : {text, text + "word and more", text}) {
    std::vector<TokenId> whole = tokenizer->before();
    ASSERT_EQ(tokenizer->Encode(prompt, &whole, true), PromptReason::kNone);
    whole.insert(whole.end(), tokenizer->after().begin(), tokenizer->after().end());
    const ordered_json body = {{"model", "m"}, {"prompt", prompt}};
    const LocalTokenizer::Answer answer = Ask("/v1/completions", body.dump());
    ASSERT_EQ(answer.reason, PromptReason::kNone);
    EXPECT_EQ(answer.prompt->AllTokens(), whole) << prompt.size();
  }
}

// Engines refuse half a pair of surrogates, so that there are no tokens, nor does it leave anything
// behind for the texts that begin as its own did.
TEST_F(LocalTokenizerTest, HalfAPairOfSurrogatesHasNoTokensWhereverATextIsDivided) {
  Use(ModelFolder(KindNamed("gpt4")).Load());
  std::string words;
  while (words.size() < TextWalk::kStretch + 1000) words += " word";
  // The template's text comes before it.
  for (size_t at = TextWalk::kStretch - 43; at <= TextWalk::kStretch + 2; at += 3) {
    for (const char* between : {R"(\ud83d)", R"(\ud83d\ude00)", R"(\ude00)", R"(\ud83d\ude01)",
                                R"(\ud83d\ud83d\ude00)", R"(\ude00\ud83d)", R"(\\ud83d)"}) {
      ExpectWhole(R"({"model":"m","messages":[{"role":"user","content":")" + words.substr(0, at) +
                  between + words.substr(at) + R"("}]})");
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_EQ(compared_, 16 * 3) << "the whole pairs, and the text that only looks like a half";
}

TEST(TextEncoder, GivesUpWhatWaitedTooLongOrCantBeCut) {
  const auto tokenizer = ModelFolder(KindNamed("gpt4")).Load();
  ASSERT_NE(tokenizer->cuts(), 0u);
  const auto reason = [&](const std::string& text, TimePoint deadline) {
    const PromptPiece piece{text, true};
    const TextWalk walk({}, std::span(&piece, 1));
    return TextEncoder(*tokenizer, {}, {}, false).Encode(walk.SpansAfter(0), deadline).reason;
  };
  const TimePoint later = std::chrono::steady_clock::now() + seconds(60);
  EXPECT_EQ(reason("word", TimePoint()), PromptReason::kTimeout);
  EXPECT_EQ(reason("word", later), PromptReason::kNone);
  EXPECT_EQ(reason(std::string(300'000, 'a'), later), PromptReason::kTooLarge);
  std::string words;
  while (words.size() < 300'000) words += " word";
  EXPECT_EQ(reason(words, later), PromptReason::kNone);
}

TEST_F(LocalTokenizerTest, SmolLm2sChatsHaveTheTokensOfTheirWholeTexts) {
  const std::string folder = SmolLm2Folder();
  if (folder.empty()) GTEST_SKIP() << "the engine's tests have not put SmolLM2 on this machine yet";
  auto made = ModelTokenizer::Load(folder, true);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_TRUE((*made)->fast());
  EXPECT_EQ((*made)->cuts(), kAllCuts);
  ChatsEqualWholeTexts(*made, 16);
}

}  // namespace
}  // namespace ember::router
