// PurgeRecord: one purge in a shard's journal `purges`, 64 bytes: u32 magic "EPRG", u8 kind, 3 zero
// bytes, 16 bytes namespace, u64 tenant hash, u64 epoch, i64 wall-clock ms, u64 zero, u64 XXH3-64
// of all before it.
#pragma once

#include <array>
#include <vector>

#include "proto/base/checksum.h"
#include "proto/model/purge_scope.h"

namespace ember::kv {

inline constexpr size_t kPurgeRecordBytes = 64;
inline constexpr size_t kMaxPurgesBytes = 64 << 20;  // of the file; compacted long before

struct PurgeRecord {
  PurgeScope scope;
  uint64_t epoch = 0;
  int64_t time_ms = 0;
  bool operator==(const PurgeRecord&) const = default;
};

std::array<std::byte, kPurgeRecordBytes> Encode(const PurgeRecord& record);

struct PurgeList {
  std::vector<PurgeRecord> records;
  // Of whole records whose bytes are not what was written: a purge may be among them, so nothing
  // that was stored before can be trusted to be wanted.
  size_t damaged = 0;
  uint64_t end = 0;  // where the next record goes
};
// Unused space reads as zeros and is passed over, and so is a last piece shorter than a record: it
// was never acknowledged.
PurgeList DecodePurges(ByteSpan journal);

}  // namespace ember::kv
