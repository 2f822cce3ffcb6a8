// Hashes under a secret, for tables whose keys come from outside: who does not know the seed cannot
// choose keys that meet. A 64x64-bit product folded to its halves, as in wyhash.
#pragma once

#include <cstdint>
#include <cstring>

#include "proto/base/random.h"
#include "proto/model/block_hash.h"

namespace ember::router {

class SeededMix {
 public:
  explicit SeededMix(uint64_t seed) {
    SeededRandom random(seed);
    first_ = random.Next();
    second_ = random.Next() | 1;
  }

  uint64_t operator()(uint64_t a, uint64_t b) const {
    const auto product = static_cast<unsigned __int128>(a ^ first_) * (b ^ second_);
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  uint64_t operator()(const BlockHash& hash) const {
    uint64_t words[2];
    std::memcpy(words, hash.bytes.data(), sizeof words);
    return (*this)(words[0], words[1]);
  }

 private:
  uint64_t first_;
  uint64_t second_;
};

}  // namespace ember::router
