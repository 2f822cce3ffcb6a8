// What is read of a body: never more than is there, never an error but a reason, whatever the
// bytes.
#include "router/tokenize/prompt_outline.h"

#include <gtest/gtest.h>

#include <fmt/ranges.h>

#include <algorithm>

#include "proto/base/random.h"
#include "router/tokenize/json_text.h"
#include "router/tokenize/text_chunks.h"

namespace ember::router {
namespace {

const std::string kLong(200, 'x');

PromptReason Read(PromptApi api, std::string_view body, PromptOutline* out,
                  uint32_t roles = kAllRoles) {
  return PromptOutline::Of(api, body, roles, out);
}

std::string Chat(std::string_view messages, std::string_view more = "") {
  return "{\"model\":\"m\"," + std::string(more) + "\"messages\":[" + std::string(messages) + "]}";
}

TEST(PromptOutline, LongTextsBecomeSlotsAndShortOnesStay) {
  PromptOutline outline;
  const std::string body =
      Chat(R"({"role":"system","content":"short"},{"role":"user","content":"  )" + kLong +
               R"(\n"},{"role":"user","content":[{"type":"text","text":")" + kLong + R"("}]})",
           R"("cache_salt":"s","stream":true,)");
  ASSERT_EQ(Read(PromptApi::kChat, body, &outline), PromptReason::kNone);
  EXPECT_EQ(outline.model, "m");
  EXPECT_EQ(outline.salt, "s");
  ASSERT_EQ(outline.slots.size(), 2u);
  EXPECT_EQ(outline.slots[0], kLong);
  EXPECT_EQ(outline.slots[1], kLong);
  EXPECT_NE(outline.request.find("\"short\""), std::string::npos);
  EXPECT_EQ(outline.request.find("stream"), std::string::npos) << "no prompt depends on it";
  EXPECT_LT(outline.request.size(), 300u);
}

TEST(PromptOutline, WhatTheCacheDependsOn) {  // B3, B4, A8
  const auto read = [](PromptApi api, const std::string& members) {
    PromptOutline outline;
    const std::string prompt = api == PromptApi::kChat ? "\"messages\":[]" : "\"prompt\":\"a\"";
    EXPECT_EQ(Read(api, "{" + members + "," + prompt + "}", &outline), PromptReason::kNone)
        << members;
    return outline;
  };
  EXPECT_EQ(read(PromptApi::kCompletion, R"("lora_path":"law")").lora_path, "law");
  EXPECT_EQ(read(PromptApi::kCompletion, R"("lora_path":["law",null])").lora_path, "");
  const auto logprobs = [&](PromptApi api, const std::string& members) {
    return read(api, members).prompt_logprobs;
  };
  for (const PromptApi api : {PromptApi::kChat, PromptApi::kCompletion}) {
    EXPECT_TRUE(logprobs(api, R"("prompt_logprobs":1)"));
    EXPECT_TRUE(logprobs(api, R"("prompt_logprobs":0)"));
    EXPECT_TRUE(logprobs(api, R"("logprobs":1,"echo":true)"));
    EXPECT_FALSE(logprobs(api, R"("prompt_logprobs":null)"));
    EXPECT_FALSE(logprobs(api, R"("logprobs":5)"));
    EXPECT_TRUE(logprobs(api, R"("echo":1,"logprobs":1)"));
    EXPECT_FALSE(logprobs(api, R"("echo":false,"logprobs":1)"));
  }
  EXPECT_FALSE(logprobs(PromptApi::kCompletion, R"("echo":true,"logprobs":null)"));
  EXPECT_TRUE(logprobs(PromptApi::kChat, R"("echo":true)")) << "by its top_logprobs, 0 by default";
}

TEST(PromptOutline, WhetherAReplysCountsAreOfThePromptAlone) {  // A8
  const auto several = [](PromptApi api, const std::string& members) {
    PromptOutline outline;
    EXPECT_EQ(Read(api, "{" + members + "}", &outline), PromptReason::kNone) << members;
    return outline.several;
  };
  for (const char* one : {R"("prompt":"a")", R"("prompt":["a"])", R"("prompt":[1,2,3])",
                          R"("prompt":[[1,2,3]])", R"("prompt":["a","b"],"prompt":"a")",
                          R"("n":1,"prompt":"a")", R"("n": null ,"best_of": 1 ,"prompt":"a")"}) {
    EXPECT_FALSE(several(PromptApi::kCompletion, one)) << one;
  }
  for (const char* more :
       {R"("prompt":["a","b"])", R"("prompt":[[1,2,3],[4]])", R"("prompt":["a",[4]])",
        R"("n":2,"prompt":"a")", R"("n":1,"prompt":"a","best_of":4)", R"("n":"2","prompt":"a")"}) {
    EXPECT_TRUE(several(PromptApi::kCompletion, more)) << more;
  }
  EXPECT_TRUE(several(PromptApi::kChat, R"("messages":[],"n": 3 )"));
  EXPECT_FALSE(several(PromptApi::kChat, R"("messages":[],"n":1)"));
}

TEST(PromptOutline, TextsOfOtherRolesAndOfToolCallsAreNoSlots) {
  const std::string call =
      R"({"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"content":")" +
      kLong + R"("}}}]})";
  const std::string body =
      Chat(R"({"content":")" + kLong + R"(","role":"tool"},)" + call +
           R"(,{"role":"critic","content":")" + kLong + R"("},{"content":")" + kLong + R"("})");
  PromptOutline outline;
  ASSERT_EQ(Read(PromptApi::kChat, body, &outline, kAllRoles & ~kToolRole), PromptReason::kNone);
  EXPECT_TRUE(outline.slots.empty());
  outline = {};
  ASSERT_EQ(Read(PromptApi::kChat, body, &outline), PromptReason::kNone);
  EXPECT_EQ(outline.slots.size(), 1u);
}

TEST(PromptOutline, FormsOfCompletionsAndOtherApis) {  // D4
  PromptOutline outline;
  const auto slots = [&](PromptApi api, const std::string& body) {
    outline = {};
    EXPECT_EQ(Read(api, body, &outline), PromptReason::kNone) << body;
    return outline.slots;
  };
  using Slots = std::vector<std::string_view>;
  EXPECT_EQ(slots(PromptApi::kCompletion, R"({"prompt":"a\n"})"), Slots{"a\\n"});
  EXPECT_TRUE(outline.add_special_tokens);
  EXPECT_EQ(slots(PromptApi::kCompletion, R"({"prompt":["a","b"],"add_special_tokens":false})"),
            Slots{"a"});
  EXPECT_FALSE(outline.add_special_tokens);
  EXPECT_TRUE(slots(PromptApi::kCompletion, R"({"prompt":[1, 2,3]})").empty());
  EXPECT_EQ(outline.ids, (std::vector<TokenId>{1, 2, 3}));
  EXPECT_TRUE(slots(PromptApi::kCompletion, R"({"prompt":[[7,8],[9]]})").empty());
  EXPECT_EQ(outline.ids, (std::vector<TokenId>{7, 8}));
  EXPECT_TRUE(slots(PromptApi::kCompletion, R"({"prompt":[0,2147483647]})").empty());
  EXPECT_EQ(outline.ids, (std::vector<TokenId>{0, 2147483647}));
  for (const char* ids :
       {"2147483648", "-1", "1.5", "1e3", "99999999999999999999999", "1,", "1 2"}) {
    const std::string body = R"({"prompt":[)" + std::string(ids) + "]}";
    EXPECT_EQ(Read(PromptApi::kCompletion, body, &outline), PromptReason::kInvalid) << ids;
  }
  EXPECT_EQ(slots(PromptApi::kResponses,
                  R"({"input":")" + kLong + R"(","instructions":")" + kLong + "y\"}"),
            (Slots{kLong, kLong + "y"}));
  EXPECT_EQ(slots(PromptApi::kAnthropic, R"({"system":[{"type":"text","text":")" + kLong +
                                             R"("}],"messages":[{"role":"user","content":")" +
                                             kLong + "\"}]}"),
            (Slots{kLong, kLong}));
}

TEST(PromptOutline, LargeDataIsLeftOutButNothingThatAModelWrote) {
  const std::string large(5000, 'y');
  PromptOutline outline;
  ASSERT_EQ(Read(PromptApi::kResponses,
                 R"({"input":[{"type":"function_call","name":"f","arguments":")" + large +
                     R"("},{"role":"assistant","content":[{"type":"refusal","refusal":")" + large +
                     R"("}]},{"role":"user","content":[{"type":"input_image","image_url":")" +
                     large + R"("}]}]})",
                 &outline),
            PromptReason::kNone);
  EXPECT_NE(outline.request.find("\"arguments\":\"" + large), std::string::npos);
  EXPECT_NE(outline.request.find("\"refusal\":\"" + large), std::string::npos);
  EXPECT_NE(outline.request.find("\"image_url\":null"), std::string::npos);
}

TEST(PromptOutline, WhatIsNoPromptIsAReason) {  // D1, D5
  PromptOutline outline;
  const auto reason = [&](PromptApi api, const std::string& body) {
    outline = {};
    return Read(api, body, &outline);
  };
  for (const char* body : {"", "[", "null", "\"x\"", "{\"messages\":[{}", "{\"messages\":[]}x",
                           "{\"a\"}", "{,}", "{\"a\":}"}) {
    EXPECT_EQ(reason(PromptApi::kChat, body), PromptReason::kInvalid) << body;
  }
  EXPECT_EQ(reason(PromptApi::kChat, "{}"), PromptReason::kNoPrompt);
  EXPECT_EQ(reason(PromptApi::kChat, R"({"prompt":"a"})"), PromptReason::kNoPrompt);
  EXPECT_EQ(reason(PromptApi::kCompletion, R"({"prompt":null})"), PromptReason::kNoPrompt);
  EXPECT_EQ(reason(PromptApi::kCompletion, R"({"prompt":[-1]})"), PromptReason::kInvalid);
  EXPECT_EQ(reason(PromptApi::kCompletion, R"({"prompt":[1,"a"]})"), PromptReason::kInvalid);
  EXPECT_EQ(reason(PromptApi::kCompletion, R"({"prompt":[99999999999]})"), PromptReason::kInvalid);
  std::string deep = R"({"messages":[)";
  for (int i = 0; i < 10000; ++i) deep += R"({"content":[)";
  EXPECT_EQ(reason(PromptApi::kChat, deep), PromptReason::kTooDeep);
  EXPECT_EQ(reason(PromptApi::kChat, "{\"tools\":" + std::string(100000, '[')),
            PromptReason::kInvalid);
}

// Bodies that differ from good ones in a few bytes: any reason will do.
TEST(PromptOutline, BrokenBodiesAreReadSafely) {
  const std::string good =
      Chat(R"({"role":"user","content":"\ud83d\ude00\\ )" + kLong +
               R"(\n"},{"role":"tool","content":[{"type":"text","text":"é)" + kLong +
               R"("},{"type":"image_url","image_url":{"url":"data:"}}]})",
           R"("tools":[{"x":[1,2,{}]}],)");
  SeededRandom random(3);
  for (int i = 0; i < 20000; ++i) {
    std::string body = good;
    for (uint64_t n = 1 + random.Next() % 3; n > 0; --n) {
      constexpr std::string_view kBytes = "\"\\{}[],:u\0\xff x";
      body[random.Next() % body.size()] = kBytes[random.Next() % kBytes.size()];
    }
    body.resize(body.size() - (random.Next() % 4 == 0 ? random.Next() % body.size() : 0));
    PromptOutline outline;
    Read(PromptApi::kChat, body, &outline);
    for (const std::string_view slot : outline.slots) {
      EXPECT_GE(slot.data(), body.data());
      EXPECT_LE(slot.data() + slot.size(), body.data() + body.size());
    }
  }
}

TEST(JsonText, MayBeDividedWhereMeaningIsKept) {
  const std::string raw = R"(a\\\"b\u00e9\ud83d\ude00é😀\\\\\\n\t\u4f60\ud83dx)"
                          "\xe4\xbd\xa0";
  for (size_t target = 1; target < raw.size(); ++target) {
    const size_t at = DivideRaw(raw, 0, target);
    ASSERT_GE(at, target);
    // From any dividable place before, the same.
    for (size_t start = 0; start < target; start = DivideRaw(raw, 0, start + 1)) {
      EXPECT_EQ(DivideRaw(raw, start, target), at) << start << " " << target;
    }
    if (raw.find("\\ud83dx") >= at) {
      std::string before, after, whole;
      ASSERT_TRUE(Unescape(raw.substr(0, at), &before)) << target;
      ASSERT_TRUE(Unescape(raw.substr(0, raw.find("\\ud83dx")), &whole));
      ASSERT_TRUE(Unescape(raw.substr(at, raw.find("\\ud83dx") - at), &after));
      EXPECT_EQ(before + after, whole);
    }
  }
  std::string ignored;
  EXPECT_FALSE(Unescape(R"(\ud83dx)", &ignored));
  EXPECT_FALSE(Unescape(R"(\ude00)", &ignored));
  EXPECT_FALSE(Unescape(R"(\x)", &ignored));
  EXPECT_FALSE(Unescape("\\", &ignored));
}

TEST(JsonText, BlankEndsAreThoseThatPythonStrips) {
  EXPECT_EQ(RawBlankPrefix(R"(  \n\t\u00a0x)"), 12u);
  EXPECT_EQ(RawBlankPrefix("\u3000\u00a0x"), 5u);
  EXPECT_EQ(RawBlankPrefix(R"(\\n)"), 0u);
  EXPECT_EQ(RawBlankSuffix(R"(x\n \u2028)"), 9u);
  EXPECT_EQ(RawBlankSuffix(R"(x\\n)"), 0u) << "a backslash and an n";
  EXPECT_EQ(RawBlankSuffix(R"(x\\\n)"), 2u);
  EXPECT_EQ(RawBlankSuffix("x\u3000"), 3u);
  EXPECT_EQ(RawBlankSuffix("x\u00e9"), 0u);
}

TEST(PromptOutline, NoMoreIsCopiedOfAHugeBodyThanIsWanted) {  // D6
  const std::string body = Chat(R"({"role":"user","content":[{"type":"text","text":")" +
                                std::string(8 << 20, 'x') + R"("}]})");
  PromptOutline whole, part;
  ASSERT_EQ(PromptOutline::Of(PromptApi::kChat, body, 0, &whole), PromptReason::kNone);
  ASSERT_EQ(PromptOutline::Of(PromptApi::kChat, body, 0, &part, 1000), PromptReason::kNone);
  EXPECT_LT(part.request.capacity(), 3000u);
  EXPECT_EQ(part.request.substr(1, 900), whole.request.substr(1, 900));
  EXPECT_EQ(part.model, whole.model);
}

TEST(TextChunks, LongerChatsBeginWithTheSameChunks) {
  const std::string first = R"({"role":"user","content":")" + kLong + R"("})";
  const SharedPrompt shorter = TextChunksOf(PromptApi::kChat, Chat(first));
  const SharedPrompt longer =
      TextChunksOf(PromptApi::kChat, Chat(first + R"(,{"role":"assistant","content":"yes"})"));
  ASSERT_TRUE(shorter != nullptr && longer != nullptr);
  const KeySpace space{.id = {}, .seed = 5, .tokens_per_block = 4};
  const auto &a = shorter->ChainIn(space), &b = longer->ChainIn(space);
  ASSERT_GT(a.size(), 10u);
  EXPECT_TRUE(std::equal(a.begin(), a.end() - 1, b.begin()));
  EXPECT_EQ(TextChunksOf(PromptApi::kChat, "{"), nullptr);
  EXPECT_EQ(shorter->source, TokenSource::kText);
  EXPECT_EQ(TextChunksOf(PromptApi::kCompletion, R"({"prompt":[1,2]})")->source,
            TokenSource::kLocal);
}

// How many chunks two bodies' texts have in common from their start.
size_t Common(PromptApi api, const std::string& a, const std::string& b) {
  const SharedPrompt one = TextChunksOf(api, a), other = TextChunksOf(api, b);
  const auto& tokens = one->tokens;
  return static_cast<size_t>(std::ranges::mismatch(tokens, other->tokens).in1 - tokens.begin());
}

std::string Quoted(const std::string& text) { return '"' + text + '"'; }

TEST(TextChunks, AnotherImageOrSoundIsAnotherPrompt) {  // B3
  const auto chat = [](const std::string& begin, const std::string& data) {
    return Chat(R"({"role":"user","content":[{"type":"text","text":")" + begin + R"("},)" + data +
                R"(,{"type":"text","text":")" + std::string(4000, 'w') + R"("}]})");
  };
  for (const char* kind : {R"({"type":"image_url","image_url":{"url":"data:)",
                           R"({"type":"input_audio","input_audio":{"data":")"}) {
    const auto data = [&](char c, size_t size) { return kind + std::string(size, c) + R"("}})"; };
    for (const size_t size : {100u, 6000u}) {
      const std::string first = chat(kLong, data('A', size)), second = chat(kLong, data('B', size));
      const size_t whole = Common(PromptApi::kChat, first, first);
      EXPECT_GT(whole, 1000u);
      const size_t common = Common(PromptApi::kChat, first, second);
      EXPECT_TRUE(common > 60 && common < 85) << kind << size << " bytes: " << common;
    }
  }
}

TEST(TextChunks, AreTheSameInEveryProcess) {
  PromptOutline outline;
  const std::string body =
      Chat(R"({"role":"user","content":[{"image_url":")" + std::string(5000, 'y') + R"("}]})");
  ASSERT_EQ(PromptOutline::Of(PromptApi::kChat, body, 0, &outline, 1000), PromptReason::kNone);
  EXPECT_EQ(outline.request,
            R"(,"messages":[{"role":"user","content":[{"image_url":"adcdb0cffc250bbf"}]}])");
}

TEST(TextChunks, GoByNoOrderOfTheBody) {  // D4
  const std::string text(2000, 's'), question = R"([{"role":"user","content":"What?"}])";
  struct Case {
    PromptApi api;
    std::vector<std::string> members;
  };
  for (Case& c : std::vector<Case>{
           {PromptApi::kChat,
            {R"("messages":)" + question, R"("tools":[{"name":"f"}])", R"("n":1)"}},
           {PromptApi::kResponses,
            {R"("input":"What?")", R"("instructions":)" + Quoted(text), R"("tools":[])"}},
           {PromptApi::kAnthropic,
            {R"("messages":)" + question, R"("system":)" + Quoted(text), R"("tools":[])"}}}) {
    std::ranges::sort(c.members);
    std::vector<TokenId> first;
    do {
      const std::string body = fmt::format("{{{}}}", fmt::join(c.members, " , "));
      const SharedPrompt prompt = TextChunksOf(c.api, body);
      ASSERT_NE(prompt, nullptr) << body;
      if (first.empty()) first = prompt->tokens;
      EXPECT_EQ(prompt->tokens, first) << body;
    } while (std::ranges::next_permutation(c.members).found);
  }
  // As clients' libraries send them.
  const auto responses = [&](const std::string& input) {
    return R"({"input":)" + Quoted(input) + R"(,"instructions":)" + Quoted(text) + "}";
  };
  EXPECT_GT(Common(PromptApi::kResponses, responses("What?"), responses("Why?")), 500u);
  const auto messages = [&](const std::string& content) {
    return R"({"messages":[{"role":"user","content":)" + Quoted(content) + R"(}],"system":)" +
           Quoted(text) + "}";
  };
  EXPECT_GT(Common(PromptApi::kAnthropic, messages("What?"), messages("Why?")), 500u);
}

// Bodies that clients' libraries write for one and the same prompt.
TEST(TextChunks, GoByNoWayOfWritingAPrompt) {  // D4
  const std::string text = Quoted(std::string(2000, 's')),
                    part = R"({"type":"text","text":)" + text;
  const std::string end = R"(,{"role":"user","content":"What?"}])";
  const std::string plain = R"({"messages":[{"role":"system","content":)" + text + "}" + end;
  for (const std::string& other : {
           R"({"tools":null,"chat_template_kwargs":null,"messages":[{"role":"system","content":)" +
               text + "}" + end + R"(,"documents":[])",
           R"({"messages":[{"content":)" + text + R"(,"role":"system"})" + end,
           R"({"messages":[{"role":"system","content":[)" + part + "}]}" + end,
           R"({"messages":[{"content":[{"text":)" + text +
               R"(,"type":"text"}],"role":"system"},{"content":"What?","role":"user"}])",
       }) {
    EXPECT_EQ(TextChunksOf(PromptApi::kChat, plain + "}")->tokens,
              TextChunksOf(PromptApi::kChat, other + "}")->tokens)
        << other;
  }
  // Nor are two prompts taken for one.
  const SharedPrompt user = TextChunksOf(
      PromptApi::kChat, R"({"messages":[{"content":)" + text + R"(,"role":"user"})" + end + "}");
  EXPECT_NE(user->tokens, TextChunksOf(PromptApi::kChat, plain + "}")->tokens);
}

TEST(TextChunks, BeginWithWhatTemplatesPrintFirst) {
  const std::string chat = R"({"role":"system","content":")" + std::string(2000, 's') + R"("})";
  for (const char* member : {R"("tools":[{"name":"%"}],)", R"("chat_template":"%",)",
                             R"("documents":["%"],)", R"("chat_template_kwargs":{"x":"%"},)"}) {
    const auto with = [&](const char* name) {
      std::string more = member;
      return Chat(chat, more.replace(more.find('%'), 1, name));
    };
    EXPECT_GT(Common(PromptApi::kChat, with("one"), with("one")), 500u);
    EXPECT_LT(Common(PromptApi::kChat, with("one"), with("two")), 16u) << member;
    EXPECT_LT(Common(PromptApi::kChat, with("one"), Chat(chat)), 16u) << member;
  }
}

TEST(PromptOutline, OfEqualMembersTheLastCountsHoweverItIsWritten) {
  const std::string messages = R"("messages":[{"role":"user","content":"first"}])";
  const std::string last = R"("m\u0065ssages":[{"role":"user","content":"last"}])";
  PromptOutline outline;
  ASSERT_EQ(Read(PromptApi::kChat,
                 R"({"model":"a","cache_salt":"x","mod\u0065l":"b","cache\u005fsalt":"y",)" +
                     messages + "}",
                 &outline),
            PromptReason::kNone);
  EXPECT_EQ(outline.model, "b");
  EXPECT_EQ(outline.salt, "y");
  ASSERT_EQ(
      Read(PromptApi::kChat,
           R"({"model":"a","cache_salt":"x","model":null,"cache_salt":null,)" + messages + "}",
           &outline),
      PromptReason::kNone);
  EXPECT_EQ(outline.model + outline.salt, "");
  EXPECT_EQ(TextChunksOf(PromptApi::kChat, "{" + messages + "," + last + "}")->tokens,
            TextChunksOf(PromptApi::kChat, "{" + last + "}")->tokens);
}

}  // namespace
}  // namespace ember::router
