// FileChain: how a file lies in the store.
//
// A file is a chain of 1 MiB chunks, a segment each, in a namespace of the engine "file". Its
// chunks are named by the file's SHA-256 and their place, so that chunks of two versions can never
// mix; a small manifest segment, named by the file's name alone and written last, says which file
// it is. The token ids that every segment carries are the words of the digest (of the file, or of
// the name for the manifest) and the chunk's index, and are compared like any other segment's.
// Plain values, any thread.
#pragma once

#include <string>

#include "proto/model/segment.h"

namespace ember::cli {

inline constexpr uint64_t kChunkBytes = 1 << 20;
inline constexpr uint64_t kMaxFileBytes = 1ull << 40;
inline constexpr size_t kMaxFileNameBytes = 1024;

struct FileManifest {
  uint64_t size = 0;
  Sha256Digest digest{};
  bool operator==(const FileManifest&) const = default;

  uint64_t chunk_count() const { return (size + kChunkBytes - 1) / kChunkBytes; }
  uint64_t chunk_size(uint64_t chunk) const {
    return std::min(kChunkBytes, size - chunk * kChunkBytes);
  }
};

// u32 magic "EFIL", u16 format, u64 size, SHA-256 of the content: always as long.
inline constexpr size_t kManifestBytes = 4 + 2 + 8 + 32;
Bytes Encode(const FileManifest& manifest);
Result<FileManifest> DecodeFileManifest(ByteSpan bytes);

class FileChain {
 public:
  // The one-segment chain of a name's manifest.
  static FileChain OfName(const std::string& name);
  // The chunks of a file.
  static FileChain OfContent(const FileManifest& manifest);

  const std::vector<SegmentRef>& refs() const { return refs_; }
  // Of one segment.
  std::span<const TokenId> tokens(size_t segment) const;
  const LayoutDigest& layout() const { return layout_; }

 private:
  FileChain(std::string_view kind, const Sha256Digest& subject, uint64_t segments);

  LayoutDigest layout_;
  std::vector<TokenId> tokens_;
  std::vector<SegmentRef> refs_;
};

}  // namespace ember::cli
