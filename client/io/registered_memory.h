// RegisteredMemory: which addresses an io_uring knows as its registered buffers, and by which
// numbers.
#pragma once

#include <map>
#include <optional>

#include "proto/base/bytes.h"

namespace ember::io {

class RegisteredMemory {
 public:
  // Buffers don't overlap.
  void Add(ByteSpan buffer, int number) { buffers_[buffer.data()] = {buffer.size(), number}; }
  // The number of the buffer that holds all of `bytes`.
  std::optional<int> Find(ByteSpan bytes) const {
    auto after = buffers_.upper_bound(bytes.data());
    if (after == buffers_.begin()) return std::nullopt;
    const auto& [begin, buffer] = *std::prev(after);
    const auto skipped = static_cast<size_t>(bytes.data() - begin);
    if (skipped > buffer.size || bytes.size() > buffer.size - skipped) return std::nullopt;
    return buffer.number;
  }
  size_t count() const { return buffers_.size(); }

 private:
  struct Buffer {
    size_t size;
    int number;
  };
  std::map<const std::byte*, Buffer> buffers_;
};

}  // namespace ember::io
