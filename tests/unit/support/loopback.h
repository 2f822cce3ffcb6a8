// A loopback address of this process's own: whatever listens there finds its ports free, also when
// it comes back to one; in the range that 127.0.0.1 gives to connections any other may take it
// meanwhile.
#pragma once

#include <string>

namespace ember {

// In 127.64.0.0/10, by process and `slot` (0 to 99).
std::string OwnLoopbackAddress(int slot = 0);

}  // namespace ember
