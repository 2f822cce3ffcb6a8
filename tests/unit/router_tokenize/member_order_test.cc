// In which order a message has its members is no part of its prompt; which of two equal ones is the
// last is, and nobody sorts more of them than any client sends.
#include <gtest/gtest.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "router/tokenize/text_chunks.h"

namespace ember::router {
namespace {

std::vector<TokenId> ChunksOfMessage(const std::vector<std::string>& members) {
  const std::string body = fmt::format("{{\"messages\":[{{{}}}]}}", fmt::join(members, ","));
  const SharedPrompt prompt = TextChunksOf(PromptApi::kChat, body);
  EXPECT_NE(prompt, nullptr) << body;
  return prompt == nullptr ? std::vector<TokenId>() : prompt->tokens;
}

bool CountInEveryOrder(std::vector<std::string> members) {
  const std::vector<TokenId> chunks = ChunksOfMessage(members);
  std::ranges::reverse(members);
  return ChunksOfMessage(members) == chunks;
}

TEST(MemberOrder, OfEqualNamesTheLastCountsHoweverTheyAreWritten) {
  const std::string role = R"("role":"user")";
  for (const char* name : {R"("content")", R"("\u0063ontent")", R"("conten\u0074")"}) {
    const std::string plain = R"("content":"one and all")",
                      written = name + std::string(R"(:"two")");
    EXPECT_NE(ChunksOfMessage({role, plain, written}), ChunksOfMessage({role, written, plain}))
        << name;
    EXPECT_TRUE(CountInEveryOrder({role, written})) << name;
  }
}

TEST(MemberOrder, IsNotFoundOutOfVeryMany) {
  constexpr int kMost = 64;
  std::vector<std::string> members;
  while (members.size() < kMost) {
    members.push_back(fmt::format(R"("m{:02}":"value {:02}")", members.size(), members.size()));
  }
  EXPECT_TRUE(CountInEveryOrder(members));
  members.push_back(R"("one_more":"value")");
  EXPECT_FALSE(CountInEveryOrder(members));
}

}  // namespace
}  // namespace ember::router
