// Randomness that must not be guessable or collide: attempt tokens, generation and incarnation ids.
// Code that decides takes a RandomSource, so that a simulation can seed it.
#pragma once

#include <array>
#include <cstddef>
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

// The same, drawn 32 at a time, for who asks often: the system call costs more than a request's
// other steps. One thread, and not in a process that forks, whose halves would draw the same.
class BatchedRandom final : public RandomSource {
 public:
  uint64_t Next() override;

 private:
  std::array<uint64_t, 32> drawn_;
  size_t used_ = drawn_.size();
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
