// RingAddress: where other threads reach one io_uring loop: its ring, for those that have a ring of
// their own to send a message from, and its wake-up descriptor for everybody.
//
// Shared: a message that is still on its way keeps both descriptors open, so that it can't reach
// another file under the same number after the loop has died. Immutable.
#pragma once

#include "client/io/file_descriptor.h"

namespace ember::io {

struct RingAddress {
  FileDescriptor ring;
  FileDescriptor wake;
};

}  // namespace ember::io
