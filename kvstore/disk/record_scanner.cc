#include "kvstore/disk/record_scanner.h"

#include <algorithm>

#include "kvstore/disk/segment_check.h"

namespace ember::kv {

io::Task<Result<ByteSpan>> BlockReader::At(uint64_t offset) {
  if (offset < begin_ || offset + kBlockBytes > begin_ + length_) {
    length_ = 0;
    Result<size_t> read = co_await file_->ReadAt(offset, buffer_.span());
    if (!read.ok()) co_return read.status();
    begin_ = offset;
    length_ = *read / kBlockBytes * kBlockBytes;
    bytes_read_ += length_;
    if (length_ == 0) co_return NotFoundError("the file ends");
  }
  co_return buffer_.span().subspan(offset - begin_, begin_ + length_ - offset);
}

io::Task<Status> CheckRecord(BlockReader* reader, const SegmentRecord& segment, uint64_t offset) {
  SegmentCheck check(segment);
  const uint64_t begin = offset + kBlockBytes;
  const uint64_t end = begin + RecordHead::BodyBytes(segment);
  for (uint64_t at = begin; at < end;) {
    Result<ByteSpan> blocks = co_await reader->At(at);
    if (!blocks.ok()) {
      if (blocks.status().code() != StatusCode::kNotFound) co_return blocks.status();
      co_return CorruptError("the file ends within the record");
    }
    const ByteSpan next = blocks->first(std::min<uint64_t>(blocks->size(), end - at));
    check.Update(next);
    at += next.size();
  }
  co_return check.Finish();
}

namespace {

// Whether a head stands at `offset` that belongs there, and its record ends within the region.
Result<RecordHead> HeadAt(ByteSpan block, uint64_t offset, const ScanOptions& options) {
  Result<RecordHead> head = DecodeRecordHead(block);
  if (!head.ok()) return head.status();
  if (head->use != options.use || head->offset != offset) {
    return NotFoundError("a head of another region, or of an earlier use");
  }
  if (head->record_bytes() > options.end - offset) {
    return CorruptError("the record reaches past its region");
  }
  return head;
}

}  // namespace

io::Task<void> ScanRecords(BlockReader* reader, ScanOptions options,
                           std::function<void(const RecordHead&)> found,
                           std::function<void(uint64_t, const Status&)> damaged) {
  uint64_t last = options.begin;  // the end of the last whole record
  for (uint64_t at = options.begin;
       at + kBlockBytes <= options.end && at - last <= options.max_gap;) {
    Result<ByteSpan> blocks = co_await reader->At(at);
    if (!blocks.ok()) {
      if (blocks.status().code() == StatusCode::kNotFound) co_return;
      damaged(at, blocks.status());
      if (blocks.status().code() == StatusCode::kCancelled) co_return;
      at += BlockReader::kWindow;
      continue;
    }
    Result<RecordHead> head = HeadAt(blocks->first(kBlockBytes), at, options);
    if (!head.ok()) {
      if (head.status().code() != StatusCode::kNotFound) damaged(at, head.status());
      at += kBlockBytes;
      continue;
    }
    Status whole;
    if (options.check_payloads) whole = co_await CheckRecord(reader, head->segment, at);
    if (whole.ok()) {
      found(*head);
      at += head->record_bytes();
      last = at;
    } else {
      damaged(at, whole);
      at += kBlockBytes;
    }
  }
}

}  // namespace ember::kv
