// EMBER_CHECK stays on in release builds: it means a programmer error, ends the process and says
// where. Never use it on bytes from outside; those are decoded into a Result.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace ember::internal {
[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition,
                                     const char* why) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s (%s)\n", file, line, condition, why);
  std::abort();
}
}  // namespace ember::internal

#define EMBER_CHECK(condition, why) \
  ((condition) ? (void)0 : ::ember::internal::CheckFailed(__FILE__, __LINE__, #condition, why))
