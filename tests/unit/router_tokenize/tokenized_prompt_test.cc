// A prompt's chain is the same however its tokens are cut into runs.
#include "router/tokenize/tokenized_prompt.h"

#include <gtest/gtest.h>

#include "proto/base/random.h"

namespace ember::router {
namespace {

KeySpace Space(uint8_t id, uint32_t per_block) {
  KeySpace space{.id = {}, .seed = id * 77u, .tokens_per_block = per_block};
  space.id.bytes.fill(static_cast<std::byte>(id));
  return space;
}

TEST(TokenizedPrompt, AChainDoesNotDependOnHowTheTokensAreCut) {
  SeededRandom random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<TokenId> tokens(random.Next() % 700);
    for (TokenId& t : tokens) t = static_cast<TokenId>(random.Next() % 50000);
    const auto ledger = std::make_shared<size_t>(0);
    {
      TokenizedPrompt prompt;
      auto next = tokens.begin();
      while (random.Next() % 8 != 0) {
        const size_t left = static_cast<size_t>(tokens.end() - next);
        const auto end = next + static_cast<ptrdiff_t>(random.Next() % (left + 1));
        prompt.prefix = std::make_shared<const TokenRun>(prompt.prefix,
                                                         std::vector<TokenId>(next, end), ledger);
        next = end;
      }
      prompt.tokens.assign(next, tokens.end());
      EXPECT_EQ(prompt.AllTokens(), tokens);
      // More spaces than a run keeps, each asked twice: once computed, once remembered.
      for (int again = 0; again < 2; ++again) {
        prompt.chains.clear();
        for (const uint32_t per_block : {1u, 16u, 7u, 64u, 128u, 300u}) {
          const KeySpace space = Space(static_cast<uint8_t>(per_block), per_block);
          EXPECT_EQ(prompt.ChainIn(space),
                    HashBlocks(space.id, space.seed, space.tokens_per_block, tokens));
        }
      }
    }
    EXPECT_EQ(*ledger, 0u);
  }
}

TEST(TokenizedPrompt, AnAgentsAnswerIsAChainInItsOwnSpaceOnly) {
  TokenizedPrompt prompt;
  prompt.token_count = 32;
  prompt.ns = Space(1, 16).id;
  prompt.chain.resize(2);
  EXPECT_EQ(prompt.ChainIn(Space(1, 16)).size(), 2u);
  EXPECT_TRUE(prompt.ChainIn(Space(2, 16)).empty());
  EXPECT_TRUE(TokenizedPrompt{}.ChainIn(Space(2, 16)).empty());
  EXPECT_TRUE(TokenizedPrompt{}.ChainIn(Space(0, 16)).empty()) << "the id of no namespace";
}

}  // namespace
}  // namespace ember::router
