#include "kvstore/disk/region_loader.h"

#include <algorithm>
#include <optional>

#include "kvstore/disk/record_scanner.h"

namespace ember::kv {
namespace {

// Above what can be in flight at once, so above what a crash can leave unwritten between two whole
// records: DiskOptions::max_write_bytes and one record of the largest kind.
constexpr uint64_t kMaxGap = 128ull << 20;

io::Task<Result<AlignedBuffer>> ReadBlocks(io::File* file, uint64_t offset, uint64_t length) {
  AlignedBuffer buffer(length);
  Result<size_t> read = co_await file->ReadAt(offset, buffer.span());
  if (!read.ok()) co_return read.status();
  if (*read < buffer.size()) co_return CorruptError(file->path() + ": ends too early");
  co_return std::move(buffer);
}

bool AllZero(ByteSpan bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

std::optional<RegionTrailer> TrailerOf(ByteSpan block, uint64_t length, uint32_t shard,
                                       uint32_t region) {
  Result<RegionTrailer> trailer = DecodeRegionTrailer(block, length);
  if (!trailer.ok() || trailer->use.shard != shard || trailer->use.region != region) {
    return std::nullopt;
  }
  return *trailer;
}

// The header, or as much of it as the trailer or the catalog can stand in for.
Result<RegionHeader> HeaderOf(ByteSpan block, uint64_t length, uint32_t shard, uint32_t region,
                              const Checksum& owner, const std::optional<RegionTrailer>& trailer,
                              const CatalogContents::Region* row) {
  Result<RegionHeader> header = DecodeRegionHeader(block);
  if (header.ok()) {
    if (header->use.shard != shard || header->use.region != region) {
      return MismatchError("it is the file of region " + std::to_string(header->use.region) +
                           " of shard " + std::to_string(header->use.shard));
    }
    if (header->owner != owner) return MismatchError("it is of another data directory");
    if (header->length != length) return CorruptError("its length is not what it was made with");
    return header;
  }
  if (header.status().code() == StatusCode::kMismatch) return header;
  if (AllZero(block) && !trailer && row == nullptr) return NotFoundError("never used");
  RegionHeader guess{.use = {shard, region, 0}, .sequence = 0, .length = length, .owner = owner};
  if (row != nullptr) guess.sequence = row->row.sequence;
  if (trailer) {
    guess.use.generation = trailer->use.generation;
  } else if (row != nullptr) {
    guess.use.generation = row->row.generation;
  } else {
    return CorruptError(std::string(header.status().message()));
  }
  return guess;
}

uint64_t EndOf(const std::vector<PlacedRecord>& records) {
  uint64_t end = kBlockBytes;
  for (const PlacedRecord& record : records) {
    end = std::max(end, record.offset + kBlockBytes + RecordHead::BodyBytes(record.segment));
  }
  return end;
}

bool Inside(const PlacedRecord& record, uint64_t length) {
  return record.offset >= kBlockBytes && record.offset % kBlockBytes == 0 &&
         record.offset < length &&
         kBlockBytes + RecordHead::BodyBytes(record.segment) <= length - record.offset;
}

io::Task<bool> UseFooter(io::File* file, RegionTrailer trailer, LoadedRegion* out) {
  Result<AlignedBuffer> footer = co_await ReadBlocks(
      file, trailer.footer_offset, std::max<uint64_t>(trailer.footer_length, kBlockBytes));
  if (!footer.ok()) co_return false;
  Result<std::vector<PlacedRecord>> records =
      DecodeFooter(footer->span().first(trailer.footer_length), trailer.checksum);
  if (!records.ok()) co_return false;
  out->records = *std::move(records);
  out->source = LoadedRegion::Source::kFooter;
  co_return true;
}

io::Task<void> UseScan(io::File* file, uint64_t begin, LoadedRegion* out) {
  BlockReader reader(file);
  const ScanOptions options{.use = out->header.use,
                            .begin = begin,
                            .end = out->header.length - kBlockBytes,
                            .max_gap = kMaxGap};
  co_await ScanRecords(
      &reader, options,
      [out](const RecordHead& head) {
        out->records.push_back({head.offset, head.segment});
      },
      [out](uint64_t, const Status&) { ++out->damaged; });
  out->scanned_bytes = reader.bytes_read();
  out->source = LoadedRegion::Source::kScan;
}

}  // namespace

io::Task<Result<LoadedRegion>> LoadRegion(io::File* file, uint32_t shard, uint32_t region,
                                          Checksum owner, const CatalogContents::Region* row) {
  Result<uint64_t> size = file->Size();
  if (!size.ok()) co_return size.status();
  if (*size < 3 * kBlockBytes || *size % kBlockBytes != 0) {
    co_return CorruptError("too short for a region");
  }
  Result<AlignedBuffer> first = co_await ReadBlocks(file, 0, kBlockBytes);
  if (!first.ok()) co_return first.status();
  Result<AlignedBuffer> last = co_await ReadBlocks(file, *size - kBlockBytes, kBlockBytes);
  if (!last.ok()) co_return last.status();
  std::optional<RegionTrailer> trailer = TrailerOf(last->span(), *size, shard, region);
  LoadedRegion out;
  Result<RegionHeader> header = HeaderOf(first->span(), *size, shard, region, owner, trailer, row);
  if (!header.ok()) co_return header.status();
  out.header = *header;
  out.header_lost = !DecodeRegionHeader(first->span()).ok();
  const uint64_t generation = out.header.use.generation;
  if (trailer && trailer->use.generation != generation) trailer.reset();
  if (row != nullptr && row->row.generation != generation) row = nullptr;

  out.sealed = trailer.has_value();
  if (row != nullptr && row->row.sealed && out.sealed) {
    out.records = row->records;
  } else if (!trailer || !co_await UseFooter(file, *trailer, &out)) {
    uint64_t begin = kBlockBytes;
    if (row != nullptr) {
      begin = std::clamp<uint64_t>(RoundUpToBlocks(row->row.catalogued), kBlockBytes, *size);
      for (const PlacedRecord& record : row->records) {
        if (record.offset < begin) out.records.push_back(record);
      }
    }
    co_await UseScan(file, begin, &out);
  }
  std::erase_if(out.records, [&](const PlacedRecord& r) { return !Inside(r, *size); });
  out.end = EndOf(out.records);
  co_return out;
}

}  // namespace ember::kv
