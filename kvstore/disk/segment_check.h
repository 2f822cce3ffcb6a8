// SegmentCheck: whether the bytes read for a segment are those that were put: the encoded
// SegmentHeader at their end is whole, names the same segment, and its checksum is the payload's.
//
// A record's head is not needed for it: bytes that pass are the put's, wherever they lay.
#pragma once

#include "kvstore/engine/segment_record.h"

namespace ember::kv {

class SegmentCheck {
 public:
  explicit SegmentCheck(const SegmentRecord& segment) : segment_(segment) {}

  // The next bytes of the body, from its start on; what comes after the header is ignored.
  void Update(ByteSpan bytes);
  // kCorrupt, with what differs.
  Status Finish() const;

  static Status Of(const SegmentRecord& segment, ByteSpan body);

 private:
  const SegmentRecord segment_;
  uint64_t position_ = 0;
  ChecksumStream payload_;
  Bytes header_;
};

// For logs: enough of a key to find it again, too little to ask for it.
std::string KeyPrefix(const BlockKey& key);

}  // namespace ember::kv
