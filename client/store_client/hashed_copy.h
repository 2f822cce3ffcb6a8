// HashedCopy: copies bytes and hashes the copies, many at once on a few threads.
#pragma once

#include <span>

#include "proto/base/checksum.h"

namespace ember {

struct HashedCopy {
  ByteSpan from;        // may change meanwhile
  MutableByteSpan to;   // of the same size
  Checksum checksum{};  // out: of what is in `to`
};

// Blocks until all is copied. Large lots are shared with another thread where the machine has
// processors for it: one can't move as many bytes as the memory can.
void RunCopies(std::span<HashedCopy> copies);

}  // namespace ember
