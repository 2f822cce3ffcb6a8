#include "kvstore/disk/segment_check.h"

#include <algorithm>

namespace ember::kv {

void SegmentCheck::Update(ByteSpan bytes) {
  const uint64_t payload_left =
      segment_.payload_length - std::min<uint64_t>(position_, segment_.payload_length);
  const ByteSpan payload = bytes.first(std::min<uint64_t>(bytes.size(), payload_left));
  payload_.Update(payload);
  const ByteSpan rest = bytes.subspan(payload.size());
  const ByteSpan header =
      rest.first(std::min(rest.size(), segment_.header_length - header_.size()));
  header_.insert(header_.end(), header.begin(), header.end());
  position_ += bytes.size();
}

Status SegmentCheck::Finish() const {
  if (header_.size() != segment_.header_length) return CorruptError("the segment is cut short");
  Result<SegmentHeader> header = DecodeSegmentHeader(header_);
  if (!header.ok()) return CorruptError(std::string(header.status().message()));
  if (header->key != segment_.key || header->generation != segment_.generation ||
      header->payload_length != segment_.payload_length) {
    return CorruptError("another segment lies there");
  }
  if (header->checksum != payload_.Digest()) return CorruptError("payload checksum differs");
  return OkStatus();
}

Status SegmentCheck::Of(const SegmentRecord& segment, ByteSpan body) {
  SegmentCheck check(segment);
  check.Update(body);
  return check.Finish();
}

std::string KeyPrefix(const BlockKey& key) { return ToHex(ByteSpan(key.hash.bytes).first(4)); }

}  // namespace ember::kv
