// What is read from a data directory: every fixed structure, and the loading of a whole region made
// of true and false blocks. The first byte chooses. Checksums are made right for half of the
// inputs, so that the fields behind them are explored, too.
#include <algorithm>

#include "kvstore/disk/catalog_row.h"
#include "kvstore/disk/identity.h"
#include "kvstore/disk/purge_record.h"
#include "kvstore/disk/region_loader.h"
#include "proto/base/check.h"

namespace ember::kv {
namespace {

constexpr uint64_t kRegionBlocks = 24;
constexpr uint32_t kMagics[] = {0x43455245, 0x47455245, 0x4c525445};  // EREC EREG ETRL

// A region file in memory; nothing suspends.
class BytesFile final : public io::File {
 public:
  explicit BytesFile(Bytes* bytes) : bytes_(bytes) {}
  io::Task<Result<size_t>> ReadAt(uint64_t offset, MutableByteSpan buffer) override {
    if (offset >= bytes_->size()) co_return size_t{0};
    const size_t n = std::min<uint64_t>(buffer.size(), bytes_->size() - offset);
    std::copy_n(bytes_->begin() + static_cast<ptrdiff_t>(offset), n, buffer.begin());
    co_return n;
  }
  io::Task<Status> WriteAt(uint64_t, std::span<const ByteSpan>) override { co_return OkStatus(); }
  io::Task<Status> Sync() override { co_return OkStatus(); }
  Status Truncate(uint64_t) override { return OkStatus(); }
  Status Allocate(uint64_t) override { return OkStatus(); }
  Result<uint64_t> Size() override { return uint64_t{bytes_->size()}; }
  bool direct() const override { return true; }
  const std::string& path() const override { return path_; }

 private:
  Bytes* const bytes_;
  const std::string path_ = "region";
};

// One block whose fields are the input's; `repair`: with a right checksum.
Bytes BlockOf(uint32_t magic, ByteSpan fields, bool repair) {
  Bytes block(kBlockBytes);
  if (repair) {
    SealBlock(magic, fields.first(std::min<size_t>(fields.size(), 4000)), block);
  } else {
    std::copy_n(fields.begin(), std::min(fields.size(), block.size()), block.begin());
  }
  return block;
}

void FuzzBlocks(ByteSpan bytes, bool repair) {
  if (Result<RecordHead> head = DecodeRecordHead(BlockOf(kMagics[0], bytes, repair)); head.ok()) {
    Bytes again(kBlockBytes);
    Encode(*head, again);
    EMBER_CHECK(*DecodeRecordHead(again) == *head, "encoding is stable");
    EMBER_CHECK(head->record_bytes() > kBlockBytes, "no record is empty");
  }
  (void)DecodeRegionHeader(BlockOf(kMagics[1], bytes, repair));
  Result<RegionTrailer> trailer = DecodeRegionTrailer(BlockOf(kMagics[2], bytes, repair), 1 << 20);
  if (trailer.ok()) {
    EMBER_CHECK(trailer->footer_offset + trailer->footer_length <= 1 << 20, "within its region");
  }
}

void FuzzFooter(ByteSpan bytes) {
  Result<std::vector<PlacedRecord>> records = DecodeFooter(bytes, Xxh3Of(bytes));
  if (records.ok()) {
    EMBER_CHECK(std::ranges::equal(EncodeFooter(*records), bytes), "one encoding for one footer");
  }
}

void FuzzCatalog(ByteSpan bytes) {
  std::map<uint32_t, CatalogContents> contents;
  if (bytes.empty()) return;
  const size_t key = std::min<size_t>(static_cast<size_t>(bytes[0]) % 20, bytes.size() - 1);
  (void)AddRow(AsString(bytes.subspan(1, key)), AsString(bytes.subspan(1 + key)), &contents);
}

io::internal::Detached Load(BytesFile* file, const CatalogContents::Region* row, bool* ended) {
  Result<LoadedRegion> loaded = co_await LoadRegion(file, 0, 1, {}, row);
  *ended = true;
  if (!loaded.ok()) co_return;
  for (const PlacedRecord& record : loaded->records) {
    EMBER_CHECK(record.offset >= kBlockBytes &&
                    record.offset + kBlockBytes + RecordHead::BodyBytes(record.segment) <=
                        kRegionBlocks * kBlockBytes,
                "a record lies within its region");
  }
}

// Each piece of the input: where it goes, what it pretends to be, its fields.
void FuzzRegion(ByteSpan input) {
  Bytes region(kRegionBlocks * kBlockBytes);
  Bytes header(kBlockBytes);
  Encode(RegionHeader{.use = {0, 1, 7}, .sequence = 1, .length = region.size(), .owner = {}},
         header);
  std::ranges::copy(header, region.begin());
  CatalogContents::Region row;
  row.row.generation = 7;
  while (input.size() > 3) {
    const uint64_t at = static_cast<uint64_t>(input[0]) % kRegionBlocks * kBlockBytes;
    const auto kind = static_cast<unsigned>(input[1]);
    const size_t length = std::min<size_t>(static_cast<size_t>(input[2]), input.size() - 3);
    const ByteSpan fields = input.subspan(3, length);
    input = input.subspan(3 + length);
    if (kind % 5 == 4) {
      ByteReader reader(fields);
      row.row.catalogued = reader.Get<uint64_t>();
      row.row.sealed = (kind & 8) != 0;
      const PlacedRecord record{reader.Get<uint64_t>(), GetSegmentRecord(&reader)};
      if (!reader.failed()) row.records.push_back(record);
    } else if (kind % 5 == 3) {
      std::copy_n(fields.begin(), std::min<size_t>(fields.size(), region.size() - at),
                  region.begin() + static_cast<ptrdiff_t>(at));
    } else {
      std::ranges::copy(BlockOf(kMagics[kind % 5], fields, true),
                        region.begin() + static_cast<ptrdiff_t>(at));
    }
  }
  BytesFile file(&region);
  for (const CatalogContents::Region* catalog :
       {static_cast<CatalogContents::Region*>(nullptr), &row}) {
    bool ended = false;
    Load(&file, catalog, &ended);
    EMBER_CHECK(ended, "nothing to wait for");
  }
}

void Fuzz(uint8_t which, ByteSpan bytes) {
  switch (which % 7) {
    case 0:
      return FuzzBlocks(bytes, false);
    case 1:
      return FuzzBlocks(bytes, true);
    case 2:
      return FuzzFooter(bytes);
    case 3:
      return FuzzCatalog(bytes);
    case 4:
      (void)DecodePurges(bytes);
      return;
    case 5:
      if (Result<Identity> identity = DecodeIdentity(AsString(bytes)); identity.ok()) {
        EMBER_CHECK(EncodeIdentity(*identity) == AsString(bytes), "one text for one identity");
      }
      return;
    case 6:
      return FuzzRegion(bytes);
  }
}

}  // namespace
}  // namespace ember::kv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  ember::kv::Fuzz(data[0], std::as_bytes(std::span(data + 1, size - 1)));
  return 0;
}
