// KvLayout: the shape of a block's bytes. Two blocks of different layouts are never
// interchangeable.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "proto/base/bytes.h"

namespace ember {

enum class CacheGroup : uint8_t { kFull = 1, kSlidingWindow = 2, kRecurrent = 3 };

struct KvLayout {
  uint32_t tokens_per_block = 0;
  uint32_t layers = 0;
  uint32_t kv_heads = 0;   // per layer, all ranks together
  uint32_t head_size = 0;  // elements
  std::string key_type;    // element type as the engine names it: "f16", "bf16", "q8_0"
  std::string value_type;
  // The order of the bytes as the engine gives them, e.g. "llama.slot.v4" or "LBHNC".
  std::string order;
  CacheGroup group = CacheGroup::kFull;
  uint32_t rank = 0;
  uint32_t rank_count = 1;

  bool operator==(const KvLayout&) const = default;
};

using LayoutDigest = std::array<std::byte, 16>;

// kInvalid with the reason unless every size is at least 1 and within kMaxLayers etc.
Status Validate(const KvLayout& layout);

// XXH3-128 of the layout's part of the canonical identity record (see kv_namespace.h).
LayoutDigest DigestOf(const KvLayout& layout);

inline constexpr uint32_t kMaxTokensPerBlock = 4096;
inline constexpr uint32_t kMaxLayers = 1024;

}  // namespace ember
