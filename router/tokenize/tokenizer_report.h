// TokenizerReport: how prompts become tokens, at one moment. Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "router/tokenize/tokenized_prompt.h"

namespace ember::router {

struct TokenizerReport {
  // What comparing with engines' own tokens has shown.
  enum class Parity : uint8_t { kUnknown, kEqual, kDiffers };

  struct Model {
    std::string model;  // "*": every one that is not named
    bool fast = false;  // fastokens; else tokenizers
    bool cuts = false;  // texts may be cut, so that a known beginning need not be tokenized again
    bool has_template = false;
    uint32_t ids = 0;
    Parity parity = Parity::kUnknown;  // kDiffers: it is not used
  };

  std::vector<Model> models;
  uint64_t cache_bytes = 0;
  uint64_t cache_max_bytes = 0;
  uint64_t known_bytes = 0;  // of prompts, whose tokens were remembered
  uint64_t new_bytes = 0;
  std::array<uint64_t, kTokenSources> prompts{};
};

}  // namespace ember::router
