#include "proto/base/random.h"

#include <sys/random.h>

#include <array>
#include <utility>

namespace ember {

uint64_t SystemRandom::Next() {
  // As many as one call gives that can't be short: the system call costs more than all else here.
  thread_local std::array<uint64_t, 32> drawn;
  thread_local size_t used = drawn.size();
  if (used == drawn.size()) {
    const ssize_t n = getrandom(drawn.data(), sizeof drawn, 0);
    EMBER_CHECK(n == sizeof drawn,
                "getrandom of 256 bytes cannot be short once the kernel's pool is ready");
    used = 0;
  }
  return std::exchange(drawn[used++], 0);
}

uint64_t SeededRandom::Next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace ember
