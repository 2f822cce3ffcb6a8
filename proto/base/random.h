// Randomness that must not be guessable or collide: attempt tokens, generation and incarnation ids.
// Code that decides takes a RandomSource, so that a simulation can seed it.
#pragma once

#include <cstdint>

#include "proto/base/bytes.h"

namespace ember {

class RandomSource {
 public:
  virtual ~RandomSource() = default;
  virtual uint64_t Next() = 0;
};

// From the kernel's getrandom(2): unpredictable. Safe from any thread.
class SystemRandom final : public RandomSource {
 public:
  uint64_t Next() override;
};

// SplitMix64 (Steele, Lea, Flood 2014): reproducible, not secret. One thread.
class SeededRandom final : public RandomSource {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next() override;

 private:
  uint64_t state_;
};

}  // namespace ember
