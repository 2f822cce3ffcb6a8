// Block: the 4 KiB unit that every fixed structure on the disk is: magic, format, fields, zeros,
// and in its last 8 bytes the XXH3-64 of all before them.
//
// So a torn, stale-in-part or flipped block is told from a whole one. Pure functions.
#pragma once

#include <cstdint>
#include <memory>

#include "proto/base/bytes.h"

namespace ember::kv {

inline constexpr size_t kBlockBytes = 4096;
inline constexpr uint16_t kDiskFormat = 1;

inline constexpr uint64_t RoundUpToBlocks(uint64_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

// Memory for direct I/O: aligned to blocks, not initialised.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // `bytes` is rounded up to whole blocks.
  explicit AlignedBuffer(size_t bytes);

  MutableByteSpan span() { return {memory_.get(), size_}; }
  ByteSpan span() const { return {memory_.get(), size_}; }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte[], Free> memory_;
  size_t size_ = 0;
};

// Fills `out` (one block) with magic, format, `fields` and what a block ends with.
void SealBlock(uint32_t magic, ByteSpan fields, MutableByteSpan out);
// The fields, followed by the zeros that fill the block. kNotFound: another magic, so it was never
// such a block. kMismatch: of a format that is not known here. kCorrupt: its checksum differs.
Result<ByteSpan> OpenBlock(uint32_t magic, ByteSpan block, std::string_view what);

}  // namespace ember::kv
