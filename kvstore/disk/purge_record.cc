#include "kvstore/disk/purge_record.h"

#include <algorithm>

namespace ember::kv {
namespace {

constexpr uint32_t kPurgeMagic = 0x47525045;  // "EPRG"
constexpr size_t kChecksumAt = kPurgeRecordBytes - 8;

bool Decode(ByteSpan bytes, PurgeRecord* out) {
  ByteReader reader(bytes);
  const auto magic = reader.Get<uint32_t>();
  const auto kind = reader.Get<uint32_t>();
  const ByteSpan ns = reader.GetRaw(out->scope.ns.bytes.size());
  std::memcpy(out->scope.ns.bytes.data(), ns.data(), ns.size());
  out->scope.kind = static_cast<PurgeScope::Kind>(kind);
  out->scope.tenant_hash = reader.Get<uint64_t>();
  out->epoch = reader.Get<uint64_t>();
  out->time_ms = reader.Get<int64_t>();
  (void)reader.Get<uint64_t>();
  const auto checksum = reader.Get<uint64_t>();
  return magic == kPurgeMagic && kind >= 1 && kind <= 3 &&
         checksum == Xxh3Of64(bytes.first(kChecksumAt));
}

}  // namespace

std::array<std::byte, kPurgeRecordBytes> Encode(const PurgeRecord& record) {
  Bytes bytes;
  ByteWriter writer(&bytes);
  writer.Put(kPurgeMagic);
  writer.Put(static_cast<uint32_t>(record.scope.kind));
  writer.PutRaw(record.scope.ns.bytes);
  writer.Put(record.scope.tenant_hash);
  writer.Put(record.epoch);
  writer.Put(record.time_ms);
  writer.Put(uint64_t{0});
  writer.Put(Xxh3Of64(bytes));
  std::array<std::byte, kPurgeRecordBytes> out;
  std::ranges::copy(bytes, out.begin());
  return out;
}

PurgeList DecodePurges(ByteSpan journal) {
  PurgeList list;
  for (size_t at = 0; journal.size() - at >= kPurgeRecordBytes; at += kPurgeRecordBytes) {
    const ByteSpan bytes = journal.subspan(at, kPurgeRecordBytes);
    if (std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; })) continue;
    list.end = at + kPurgeRecordBytes;
    PurgeRecord record;
    if (Decode(bytes, &record)) {
      list.records.push_back(record);
    } else {
      ++list.damaged;
    }
  }
  return list;
}

}  // namespace ember::kv
