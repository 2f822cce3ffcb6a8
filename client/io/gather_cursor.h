// GatherCursor: what is left to write of a list of byte spans, as the kernel takes it.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>

#include "client/io/stream.h"

namespace ember::io {

class GatherCursor {
 public:
  // The bytes must stay valid; the list need not.
  explicit GatherCursor(std::span<const ByteSpan> parts) {
    EMBER_CHECK(parts.size() <= kMaxGatherParts, "too many parts in one WriteAll");
    for (ByteSpan part : parts) {
      if (part.empty()) continue;
      vectors_[count_++] = {const_cast<std::byte*>(part.data()), part.size()};
    }
  }

  bool done() const { return first_ == count_; }
  // A message of what is left; valid until the next Advance, while the cursor stays in place.
  msghdr* Message() {
    message_.msg_iov = &vectors_[first_];
    message_.msg_iovlen = count_ - first_;
    return &message_;
  }
  // `n` more bytes have been written.
  void Advance(size_t n) {
    while (n > 0) {
      iovec& vector = vectors_[first_];
      if (n < vector.iov_len) {
        vector = {static_cast<std::byte*>(vector.iov_base) + n, vector.iov_len - n};
        return;
      }
      n -= vector.iov_len;
      ++first_;
    }
  }

 private:
  std::array<iovec, kMaxGatherParts> vectors_;
  size_t first_ = 0;
  size_t count_ = 0;
  msghdr message_{};
};

}  // namespace ember::io
