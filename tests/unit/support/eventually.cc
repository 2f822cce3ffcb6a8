#include "tests/unit/support/eventually.h"

#include <thread>

namespace ember {

bool Eventually(const std::function<bool()>& condition, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

void LetTimePass(std::chrono::nanoseconds duration) { std::this_thread::sleep_for(duration); }

}  // namespace ember
