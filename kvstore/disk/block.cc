#include "kvstore/disk/block.h"

#include <algorithm>
#include <new>

#include "proto/base/checksum.h"

namespace ember::kv {
namespace {

constexpr size_t kHeadBytes = 8;  // magic, format, two spare bytes
constexpr size_t kChecksumBytes = 8;

}  // namespace

AlignedBuffer::AlignedBuffer(size_t bytes)
    : memory_(static_cast<std::byte*>(
          ::operator new[](RoundUpToBlocks(bytes), std::align_val_t(kBlockBytes)))),
      size_(RoundUpToBlocks(bytes)) {}

void AlignedBuffer::Free::operator()(std::byte* p) const {
  ::operator delete[](p, std::align_val_t(kBlockBytes));
}

void SealBlock(uint32_t magic, ByteSpan fields, MutableByteSpan out) {
  EMBER_CHECK(
      out.size() == kBlockBytes && fields.size() <= kBlockBytes - kHeadBytes - kChecksumBytes,
      "a block's fields fit in it");
  std::ranges::fill(out, std::byte{0});
  std::memcpy(out.data(), &magic, sizeof magic);
  std::memcpy(out.data() + sizeof magic, &kDiskFormat, sizeof kDiskFormat);
  std::ranges::copy(fields, out.begin() + kHeadBytes);
  const uint64_t checksum = Xxh3Of64(out.first(kBlockBytes - kChecksumBytes));
  std::memcpy(out.data() + kBlockBytes - kChecksumBytes, &checksum, sizeof checksum);
}

Result<ByteSpan> OpenBlock(uint32_t magic, ByteSpan block, std::string_view what) {
  ByteReader reader(block.first(std::min(block.size(), kHeadBytes)));
  const auto found_magic = reader.Get<uint32_t>();
  const auto format = reader.Get<uint16_t>();
  if (block.size() != kBlockBytes || found_magic != magic) {
    return NotFoundError(std::string(what) + ": not one");
  }
  uint64_t checksum = 0;
  std::memcpy(&checksum, block.data() + kBlockBytes - kChecksumBytes, sizeof checksum);
  if (checksum != Xxh3Of64(block.first(kBlockBytes - kChecksumBytes))) {
    return CorruptError(std::string(what) + ": checksum differs");
  }
  if (format != kDiskFormat) {
    return MismatchError(std::string(what) + ": format " + std::to_string(format) +
                         " is not known here");
  }
  return block.subspan(kHeadBytes, kBlockBytes - kHeadBytes - kChecksumBytes);
}

}  // namespace ember::kv
