// Checksum: XXH3-128 of a payload, in XXH's canonical (big-endian) byte order.
// Made by the writer, checked on receive, on disk read, and by the reader after the last copy.
#pragma once

#include <array>
#include <memory>

#include "proto/base/bytes.h"

namespace ember {

using Checksum = std::array<std::byte, 16>;

Checksum Xxh3Of(ByteSpan bytes, uint64_t seed = 0);
uint64_t Xxh3Of64(ByteSpan bytes);

// The same over bytes that arrive in pieces.
class ChecksumStream {
 public:
  ChecksumStream();
  ~ChecksumStream();
  ChecksumStream(ChecksumStream&&) noexcept;
  ChecksumStream& operator=(ChecksumStream&&) noexcept;
  void Update(ByteSpan bytes);
  Checksum Digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// XXH3-128 under a random secret of the process: names things in memory so that nobody outside can
// choose two that meet. Any thread.
class SecretHash {
 public:
  SecretHash();
  Checksum Of(ByteSpan bytes) const;

 private:
  std::array<std::byte, 192> secret_;
};

}  // namespace ember
