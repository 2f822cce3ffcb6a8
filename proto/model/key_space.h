// KeySpace: how one holder names its blocks: a namespace's id and seed, and the block size. Two
// holders with equal spaces give one prompt the same chain of hashes.
#pragma once

#include <compare>
#include <cstdint>

#include "proto/model/kv_namespace.h"

namespace ember {

struct KeySpace {
  NamespaceId id;
  uint64_t seed = 0;  // secret, as NamespaceRoot's
  uint32_t tokens_per_block = 0;
  auto operator<=>(const KeySpace&) const = default;

  static KeySpace Of(const NamespaceRoot& root, uint32_t tokens_per_block) {
    return {root.id, root.seed, tokens_per_block};
  }
};

}  // namespace ember
