// SlotFile: llama.cpp's saved state of one slot (sequence state, format version 4), read with
// bounds, cut into segment payloads, and written again from them.
//
// A slot file is: u32 "ggsq", u32 version, u32 n, i32[n] packed tokens ([-1, 1, count, tokens,
// media count]); u32 streams, u32 cells; per cell i32 position, u32 1, i32 sequence; u32 v_trans,
// u32 layers, u32 n_rot_k, u32 n_rot_v; then one plane per layer for K and one per layer for V,
// each i32 element type, u64 row bytes, and one row per cell. Only a unified cache (one stream)
// with flash attention (V not transposed) and text-only content is understood; anything else is a
// Status.
//
// Pure functions over bytes of outside origin; any thread. A SlotFile is a view: the bytes it was
// parsed from must outlive it.
#pragma once

#include <span>
#include <vector>

#include "client/agent/slot_shape.h"

namespace ember::agent {

inline constexpr uint32_t kSlotFileMagic = 0x67677371;  // "ggsq"
inline constexpr uint32_t kSlotFileVersion = 4;

class SlotFile {
 public:
  // kMismatch: another version, several streams, transposed V, media: a configuration we do not
  // serve. kCorrupt: anything a correct file cannot be (truncated, trailing bytes, lying counts,
  // positions that are not a permutation of 0..n-1).
  static Result<SlotFile> Parse(ByteSpan file);

  // Those whose KV is in the file: the engine's token list may be one longer than its cells.
  std::span<const TokenId> tokens() const { return tokens_; }
  // Empty planes when the slot was empty.
  const SlotShape& shape() const { return shape_; }
  // The rows of tokens [begin, end), end <= tokens().size().
  Bytes CutPayload(size_t begin, size_t end) const;

 private:
  // Cells [cell, cell + count) hold the positions from `position` on.
  struct Run {
    uint32_t position = 0;
    uint32_t cell = 0;
    uint32_t count = 0;
  };
  Status ReadTokens(ByteReader* r);
  Status ReadCells(ByteReader* r, uint32_t cells);
  Status ReadPlanes(ByteReader* r, uint32_t cells);

  ByteSpan file_;
  std::vector<TokenId> tokens_;
  SlotShape shape_;
  std::vector<size_t> plane_offsets_;  // of the first row, in file_
  std::vector<Run> runs_;              // by position; one run unless slots grew into each other
};

// Writes the slot file of `tokens` from the payloads of consecutive runs of `tokens_per_payload`
// tokens into `fd` (from offset 0; what was there beyond is cut off), in a few gathering writes and
// without a copy of its own. kMismatch: the payloads do not fit; nothing is written then.
// kNoSpace: the file system refused.
Status WriteSlotFile(int fd, const SlotShape& shape, std::span<const TokenId> tokens,
                     std::span<const ByteSpan> payloads, size_t tokens_per_payload);

}  // namespace ember::agent
