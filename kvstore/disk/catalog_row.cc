#include "kvstore/disk/catalog_row.h"

namespace ember::kv {
namespace {

constexpr size_t kRegionKeyBytes = 8;
constexpr size_t kRecordKeyBytes = 16;

template <typename T>
void PutBigEndian(std::string* out, T value) {
  for (int shift = 8 * (sizeof value - 1); shift >= 0; shift -= 8) {
    out->push_back(static_cast<char>(value >> shift));
  }
}

template <typename T>
T BigEndian(std::string_view bytes) {
  T value = 0;
  for (char c : bytes.substr(0, sizeof value)) value = value << 8 | static_cast<uint8_t>(c);
  return value;
}

std::string ToString(const Bytes& bytes) { return std::string(AsString(bytes)); }

}  // namespace

std::string RegionRowKey(uint32_t shard, uint32_t region) {
  std::string key;
  PutBigEndian(&key, shard);
  PutBigEndian(&key, region);
  return key;
}

std::string RecordRowKey(uint32_t shard, uint32_t region, uint64_t offset) {
  std::string key = RegionRowKey(shard, region);
  PutBigEndian(&key, offset);
  return key;
}

std::string EncodeRow(const CatalogRegion& region) {
  Bytes bytes;
  ByteWriter writer(&bytes);
  writer.Put(region.generation);
  writer.Put(region.sequence);
  writer.Put(region.catalogued);
  writer.Put(static_cast<uint8_t>(region.sealed));
  return ToString(bytes);
}

std::string EncodeRow(const SegmentRecord& record) {
  Bytes bytes;
  ByteWriter writer(&bytes);
  Put(&writer, record);
  return ToString(bytes);
}

Status AddRow(std::string_view key, std::string_view value,
              std::map<uint32_t, CatalogContents>* contents) {
  if (key.size() != kRegionKeyBytes && key.size() != kRecordKeyBytes) {
    return CorruptError("catalog: a row that is none");
  }
  const auto shard = BigEndian<uint32_t>(key);
  const auto region = BigEndian<uint32_t>(key.substr(4));
  CatalogContents::Region& home = (*contents)[shard].regions[region];
  ByteReader reader(AsBytes(value));
  if (key.size() == kRegionKeyBytes) {
    home.row.generation = reader.Get<uint64_t>();
    home.row.sequence = reader.Get<uint64_t>();
    home.row.catalogued = reader.Get<uint64_t>();
    home.row.sealed = reader.Get<uint8_t>() != 0;
  } else {
    home.records.push_back({BigEndian<uint64_t>(key.substr(8)), GetSegmentRecord(&reader)});
  }
  if (!reader.Finish("catalog row").ok()) return CorruptError("catalog: a row that is none");
  return OkStatus();
}

}  // namespace ember::kv
