#include "client/agent/slot_file.h"

#include <algorithm>

namespace ember::agent {
namespace {
constexpr int32_t kPackedMarker = -1;
constexpr int32_t kPackedVersion = 1;
constexpr size_t kCellBytes = 12;
}  // namespace

Status SlotFile::ReadTokens(ByteReader* r) {
  const uint32_t n = r->GetCount(kMaxSlotTokens, sizeof(TokenId));
  const ByteSpan raw = r->GetRaw(n * sizeof(TokenId));
  if (r->failed()) return CorruptError("slot file: truncated token list");
  std::vector<TokenId> packed(n);
  if (n > 0) std::memcpy(packed.data(), raw.data(), raw.size());
  if (packed.empty() || packed[0] != kPackedMarker) {  // a plain list
    tokens_ = std::move(packed);
    return OkStatus();
  }
  if (n < 4 || packed[1] != kPackedVersion) {
    return MismatchError("slot file: token list of an unknown version");
  }
  const auto count = static_cast<uint32_t>(packed[2]);
  if (count > n - 4) return CorruptError("slot file: token count beyond the list");
  if (packed[3 + count] != 0) return MismatchError("slot file: holds media");
  if (count != n - 4) return CorruptError("slot file: bytes after the token list");
  tokens_.assign(packed.begin() + 3, packed.begin() + 3 + count);
  return OkStatus();
}

Status SlotFile::ReadCells(ByteReader* r, uint32_t cells) {
  std::vector<uint32_t> cell_of(cells, UINT32_MAX);
  for (uint32_t cell = 0; cell < cells; ++cell) {
    const auto position = r->Get<int32_t>();
    const auto sequences = r->Get<uint32_t>();
    r->Get<int32_t>();  // the slot it was saved from: any will do
    if (sequences != 1) return MismatchError("slot file: a cell of several sequences");
    if (position < 0 || static_cast<uint32_t>(position) >= cells ||
        cell_of[position] != UINT32_MAX) {
      return CorruptError("slot file: positions are not 0..n-1");
    }
    cell_of[position] = cell;
  }
  for (uint32_t position = 0; position < cells; ++position) {
    if (!runs_.empty() && runs_.back().cell + runs_.back().count == cell_of[position]) {
      ++runs_.back().count;
    } else {
      runs_.push_back({position, cell_of[position], 1});
    }
  }
  return OkStatus();
}

Status SlotFile::ReadPlanes(ByteReader* r, uint32_t cells) {
  const auto v_trans = r->Get<uint32_t>();
  shape_.layers = r->Get<uint32_t>();
  shape_.n_rot_k = r->Get<uint32_t>();
  shape_.n_rot_v = r->Get<uint32_t>();
  if (r->failed()) return CorruptError("slot file: truncated");
  if (v_trans != 0) return MismatchError("slot file: V is transposed (flash attention is off)");
  if (shape_.layers == 0 || shape_.layers > kMaxLayers) {
    return CorruptError("slot file: impossible layer count");
  }
  for (uint32_t i = 0; i < 2 * shape_.layers; ++i) {
    SlotPlane plane;
    plane.type = r->Get<int32_t>();
    const auto row_bytes = r->Get<uint64_t>();
    if (r->failed() || row_bytes == 0 || row_bytes > kMaxSlotRowBytes) {
      return CorruptError("slot file: truncated, or an impossible row size");
    }
    plane.row_bytes = static_cast<uint32_t>(row_bytes);
    plane_offsets_.push_back(file_.size() - r->remaining());
    r->GetRaw(row_bytes * cells);
    shape_.planes.push_back(plane);
  }
  return r->failed() ? CorruptError("slot file: truncated rows") : OkStatus();
}

Result<SlotFile> SlotFile::Parse(ByteSpan file) {
  SlotFile out;
  out.file_ = file;
  ByteReader r(file);
  const auto magic = r.Get<uint32_t>();
  const auto version = r.Get<uint32_t>();
  if (r.failed() || magic != kSlotFileMagic) return CorruptError("slot file: not one");
  if (version != kSlotFileVersion) {
    return MismatchError("slot file: version " + std::to_string(version) + " is not known here");
  }
  EMBER_RETURN_IF_ERROR(out.ReadTokens(&r));
  const auto streams = r.Get<uint32_t>();
  if (!r.failed() && streams != 1) {
    return MismatchError("slot file: several streams (the engine needs -kvu)");
  }
  const uint32_t cells = r.GetCount(kMaxSlotTokens, kCellBytes);
  if (r.failed()) return CorruptError("slot file: truncated, or a cell count that lies");
  if (cells > 0) {
    EMBER_RETURN_IF_ERROR(out.ReadCells(&r, cells));
    EMBER_RETURN_IF_ERROR(out.ReadPlanes(&r, cells));
  }
  if (r.remaining() != 0) return CorruptError("slot file: trailing bytes");
  if (out.tokens_.size() > cells + 1 || cells > out.tokens_.size()) {
    return CorruptError("slot file: token and cell counts do not match");
  }
  out.tokens_.resize(cells);
  return out;
}

Bytes SlotFile::CutPayload(size_t begin, size_t end) const {
  EMBER_CHECK(begin < end && end <= tokens_.size(), "a payload holds tokens of the file");
  Bytes out = shape_.PayloadHeader(end - begin);
  out.reserve(shape_.PayloadBytes(end - begin));
  auto first = std::ranges::upper_bound(runs_, begin, {}, &Run::position) - 1;
  for (size_t p = 0; p < shape_.planes.size(); ++p) {
    const size_t row = shape_.planes[p].row_bytes;
    for (auto run = first; run != runs_.end() && run->position < end; ++run) {
      const size_t from = std::max<size_t>(begin, run->position);
      const size_t to = std::min<size_t>(end, run->position + run->count);
      const size_t cell = run->cell + (from - run->position);
      const std::byte* rows = file_.data() + plane_offsets_[p] + cell * row;
      out.insert(out.end(), rows, rows + (to - from) * row);
    }
  }
  return out;
}

}  // namespace ember::agent
