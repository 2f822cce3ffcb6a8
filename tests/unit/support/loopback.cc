#include "tests/unit/support/loopback.h"

#include <unistd.h>

#include <cstdint>

namespace ember {

std::string OwnLoopbackAddress(int slot) {
  const auto pid = static_cast<uint32_t>(getpid());
  return "127." + std::to_string(64 + (pid >> 16 & 63)) + "." + std::to_string(pid >> 8 & 255) +
         "." + std::to_string((pid + 1 + static_cast<uint32_t>(slot)) % 254 + 1);
}

}  // namespace ember
