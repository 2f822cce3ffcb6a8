// Prompt: what the bench replica makes of a request's body, in the way of shared/bench/router's
// fake replica: the messages as one text, of which four bytes are a token. Plain values; any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/status.h"
#include "proto/model/block_hash.h"
#include "proto/model/key_space.h"

namespace ember::bench {

inline constexpr uint32_t kTokensPerBlock = 16;

// How all bench replicas name blocks, as replicas of one model do.
KeySpace BenchSpace();

// The whole blocks of a text, by their names in agents' reports and by those in a BlockCache.
struct Chain {
  std::vector<BlockHash> hashes;
  std::vector<uint64_t> names;
};
Chain ChainOf(std::string_view text);

struct Prompt {
  bool chat = false;
  bool stream = false;
  uint64_t output_tokens = 0;
  std::string text;
  uint64_t tokens = 0;
  Chain chain;

  // kInvalid: the path or the body is none that a prompt comes with.
  static Result<Prompt> Of(std::string_view path, std::string_view body);
};

// The answer's text, so many tokens of it.
std::string AnswerOf(uint64_t tokens);

}  // namespace ember::bench
