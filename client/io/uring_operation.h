// UringOperation: one request the kernel works on, living in the frame of the coroutine that waits.
//
// Life: from its submission to its completion the kernel holds its address (as user data) and that
// of its buffers, so the frame must stay; cancelling only asks.
#pragma once

#include <coroutine>

namespace ember::io {

struct UringOperation {
  std::coroutine_handle<> waiter;
  // Where the owner keeps the pending operation, to cancel it; cleared at completion.
  UringOperation** slot = nullptr;
  int result = 0;
  // The loop's list of pending operations.
  UringOperation* previous = nullptr;
  UringOperation* next = nullptr;
};

}  // namespace ember::io
