// The two makers behind MakeLoop. Each fails when the system refuses what the back end needs.
#pragma once

#include "client/io/loop.h"

namespace ember::io {

Result<std::unique_ptr<Loop>> MakeEpollLoop();
Result<std::unique_ptr<Loop>> MakeUringLoop();

}  // namespace ember::io
