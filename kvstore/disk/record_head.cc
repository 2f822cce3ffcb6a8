#include "kvstore/disk/record_head.h"

namespace ember::kv {
namespace {

constexpr uint32_t kRecordMagic = 0x43455245;  // "EREC"
// Far above what any node accepts; so sums of lengths can't wrap.
constexpr uint32_t kMaxPayloadLength = 1u << 30;

template <size_t N>
void Read(ByteReader* reader, std::array<std::byte, N>* out) {
  if (ByteSpan bytes = reader->GetRaw(N); !bytes.empty()) {
    std::memcpy(out->data(), bytes.data(), N);
  }
}

}  // namespace

void Put(ByteWriter* writer, const SegmentRecord& record) {
  writer->PutRaw(record.key.ns.bytes);
  writer->PutRaw(record.key.hash.bytes);
  writer->Put(record.generation.high);
  writer->Put(record.generation.low);
  writer->Put(record.tenant_hash);
  writer->Put(record.purge_epoch);
  writer->Put(record.created_ms);
  writer->Put(record.payload_length);
  writer->Put(record.header_length);
}

SegmentRecord GetSegmentRecord(ByteReader* reader) {
  SegmentRecord record;
  Read(reader, &record.key.ns.bytes);
  Read(reader, &record.key.hash.bytes);
  record.generation.high = reader->Get<uint64_t>();
  record.generation.low = reader->Get<uint64_t>();
  record.tenant_hash = reader->Get<uint64_t>();
  record.purge_epoch = reader->Get<uint64_t>();
  record.created_ms = reader->Get<int64_t>();
  record.payload_length = reader->Get<uint32_t>();
  record.header_length = reader->Get<uint32_t>();
  if (record.payload_length == 0 || record.payload_length > kMaxPayloadLength ||
      record.header_length == 0 || record.header_length > kMaxSegmentHeaderBytes) {
    reader->Fail();
  }
  return record;
}

void Encode(const RecordHead& head, MutableByteSpan block) {
  Bytes fields;
  ByteWriter writer(&fields);
  writer.Put(head.use.shard);
  writer.Put(head.use.region);
  writer.Put(head.use.generation);
  writer.Put(head.offset);
  Put(&writer, head.segment);
  writer.PutRaw(head.checksum);
  SealBlock(kRecordMagic, fields, block);
}

Result<RecordHead> DecodeRecordHead(ByteSpan block) {
  Result<ByteSpan> fields = OpenBlock(kRecordMagic, block, "record head");
  if (!fields.ok()) return fields.status();
  ByteReader reader(*fields);
  RecordHead head;
  head.use.shard = reader.Get<uint32_t>();
  head.use.region = reader.Get<uint32_t>();
  head.use.generation = reader.Get<uint64_t>();
  head.offset = reader.Get<uint64_t>();
  head.segment = GetSegmentRecord(&reader);
  Read(&reader, &head.checksum);
  if (reader.failed()) return InvalidError("record head: lengths that no segment has");
  return head;
}

}  // namespace ember::kv
