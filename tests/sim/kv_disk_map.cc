#include "tests/sim/kv_disk_map.h"

#include <algorithm>

#include "kvstore/disk/region_footer.h"
#include "kvstore/disk/region_header.h"

namespace ember::sim {
namespace {

bool IsRegion(const std::string& path) { return path.find("/region-") != std::string::npos; }

}  // namespace

void KvDiskMap::Set(Pieces* pieces, uint64_t begin, uint64_t end, DiskTarget target) {
  auto it = pieces->upper_bound(begin);
  if (it != pieces->begin() && std::prev(it)->second.end > begin) --it;
  while (it != pieces->end() && it->first < end) it = pieces->erase(it);
  if (begin < end) pieces->emplace(begin, Piece{end, target});
}

void KvDiskMap::Written(const std::string& path, uint64_t offset, ByteSpan bytes) {
  if (!IsRegion(path)) return;
  Pieces* pieces = &files_[path];
  const uint64_t end = offset + bytes.size();
  if (bytes.size() < kv::kBlockBytes) return Set(pieces, offset, end, DiskTarget::kOther);
  const ByteSpan block = bytes.first(kv::kBlockBytes);
  if (const auto head = kv::DecodeRecordHead(block); head.ok()) {
    const uint64_t value = offset + kv::kBlockBytes;
    const uint64_t header = value + head->segment.payload_length;
    Set(pieces, offset, value, DiskTarget::kRecordHead);
    Set(pieces, value, header, DiskTarget::kValue);
    Set(pieces, header, end, DiskTarget::kSegmentHeader);
  } else if (kv::DecodeRegionHeader(block).ok()) {
    Set(pieces, offset, end, DiskTarget::kRegionHeader);
  } else {
    // Nothing else is written to a region.
    Set(pieces, offset, end, DiskTarget::kRegionFooter);
  }
}

DiskTarget KvDiskMap::At(const std::string& path, uint64_t offset) {
  if (path.ends_with("/purges") || path.ends_with("/purges.new")) return DiskTarget::kJournal;
  if (path.find("/IDENTITY") != std::string::npos) return DiskTarget::kIdentity;
  auto file = files_.find(path);
  if (file == files_.end()) return DiskTarget::kOther;
  auto it = file->second.upper_bound(offset);
  if (it == file->second.begin()) return DiskTarget::kOther;
  const auto& [begin, piece] = *std::prev(it);
  return offset < piece.end ? piece.target : DiskTarget::kOther;
}

}  // namespace ember::sim
