#include "proto/base/random.h"

#include <sys/random.h>

#include <utility>

namespace ember {

uint64_t SystemRandom::Next() {
  uint64_t v = 0;
  const ssize_t n = getrandom(&v, sizeof v, 0);
  EMBER_CHECK(n == sizeof v,
              "getrandom of 8 bytes cannot be short once the kernel's pool is ready");
  return v;
}

uint64_t BatchedRandom::Next() {
  if (used_ == drawn_.size()) {
    const ssize_t n = getrandom(drawn_.data(), sizeof drawn_, 0);
    EMBER_CHECK(n == sizeof drawn_,
                "getrandom of 256 bytes cannot be short once the kernel's pool is ready");
    used_ = 0;
  }
  return std::exchange(drawn_[used_++], 0);
}

uint64_t SeededRandom::Next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace ember
