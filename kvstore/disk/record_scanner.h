// RecordScanner: finds a region's records by reading it, without any list of them.
//
// It looks at every block for a head of this use of the region. What a valid head announces is read
// and checked; after a damaged record it goes on at the next block, so one bad record never hides
// those behind it. Random region generations keep payload bytes from posing as heads.
// Concurrency: the loop's thread only.
#pragma once

#include <functional>

#include "client/io/file.h"
#include "kvstore/disk/record_head.h"

namespace ember::kv {

// Reads a file's blocks in order, a mebibyte at a time.
class BlockReader {
 public:
  explicit BlockReader(io::File* file) : file_(file), buffer_(kWindow) {}

  // The blocks from `offset` on, at least one; valid until the next call. kNotFound at the end of
  // the file.
  io::Task<Result<ByteSpan>> At(uint64_t offset);
  uint64_t bytes_read() const { return bytes_read_; }

  static constexpr uint64_t kWindow = 1 << 20;

 private:
  io::File* const file_;
  AlignedBuffer buffer_;
  uint64_t begin_ = 0;
  uint64_t length_ = 0;
  uint64_t bytes_read_ = 0;
};

// Reads and checks the body of the record whose head lies at `offset`. kCorrupt, or the disk's
// error.
io::Task<Status> CheckRecord(BlockReader* reader, const SegmentRecord& segment, uint64_t offset);

struct ScanOptions {
  RegionUse use;
  uint64_t begin = kBlockBytes;  // where to look first
  uint64_t end = 0;              // records end before it
  bool check_payloads = true;
  // Where so many bytes follow without a whole record, none follows at all.
  uint64_t max_gap = UINT64_MAX;
};
// `found` hears of each whole record in order; `damaged` of each head whose body is not, and of
// each stretch that could not be read, by offset and reason. Suspends often; never fails as a
// whole.
io::Task<void> ScanRecords(BlockReader* reader, ScanOptions options,
                           std::function<void(const RecordHead&)> found,
                           std::function<void(uint64_t, const Status&)> damaged);

}  // namespace ember::kv
