#include "kvstore/server/frame_reader.h"

#include <algorithm>

namespace ember::kv {
namespace {

constexpr size_t kBufferBytes = 64 << 10;
// After a payload another one is likely: read little more than its header, for what comes along
// with the header must be copied.
constexpr size_t kReadAfterPayload = 4 << 10;
constexpr size_t kLargeMetaStep = 256 << 10;

// True when the bytes can still become a frame. A foreign protocol is told after its first bytes,
// and need not send a whole header.
bool MayBeFrame(ByteSpan bytes) {
  static const auto kAnyFrame = wire::EncodeFrameHeader({});
  constexpr size_t kMagicBytes = 4;
  return std::ranges::equal(bytes.first(std::min(bytes.size(), kMagicBytes)),
                            ByteSpan(kAnyFrame).first(std::min(bytes.size(), kMagicBytes)));
}

Result<wire::FrameHeader> HeaderAt(ByteSpan bytes) {
  return wire::DecodeFrameHeader(bytes.first<wire::kFrameHeaderBytes>());
}

}  // namespace

FrameReader::FrameReader(ServerContext* context, io::Stream* stream, Watch* watch)
    : context_(context),
      stream_(stream),
      watch_(watch),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)) {}

FrameReader::~FrameReader() { DropLargeMeta(); }

bool FrameReader::HasWholeFrame() const {
  if (buffered().size() < wire::kFrameHeaderBytes) return false;
  Result<wire::FrameHeader> header = HeaderAt(buffered());
  return !header.ok() || buffered().size() - wire::kFrameHeaderBytes >= header->meta_length;
}

void FrameReader::Compact() {
  std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
}

// Reads some more into the buffer.
io::Task<Status> FrameReader::Fill() {
  if (begin_ == end_ || end_ == kBufferBytes) Compact();
  size_t room = kBufferBytes - end_;
  if (after_payload_) room = std::min(room, kReadAfterPayload);
  Result<size_t> read = co_await stream_->ReadSome({buffer_.get() + end_, room});
  if (!read.ok()) co_return read.status();
  if (*read == 0) co_return UnavailableError("the peer closed within a frame");
  end_ += *read;
  co_return OkStatus();
}

io::Task<Status> FrameReader::FillHeader() {
  if (buffered().empty()) {
    watch_->Arm(context_->options.idle_timeout);
    idle_ = true;
    const Status status = co_await Fill();
    idle_ = false;
    if (status.code() == StatusCode::kUnavailable && buffered().empty()) {
      co_return NotFoundError("the peer closed");
    }
    EMBER_CO_RETURN_IF_ERROR(status);
  }
  watch_->Limit(context_->options.frame_timeout);
  while (MayBeFrame(buffered()) && buffered().size() < wire::kFrameHeaderBytes) {
    watch_->Arm(context_->options.stall_timeout);
    EMBER_CO_RETURN_IF_ERROR(co_await Fill());
  }
  if (!MayBeFrame(buffered())) co_return InvalidError("not an EmberKV data-plane frame");
  co_return OkStatus();
}

io::Task<Result<FrameReader::Frame>> FrameReader::Next() {
  DropLargeMeta();
  EMBER_CO_RETURN_IF_ERROR(co_await FillHeader());
  after_payload_ = false;
  Result<wire::FrameHeader> header = HeaderAt(buffered());
  if (!header.ok()) co_return header.status();
  begin_ += wire::kFrameHeaderBytes;
  Result<ByteSpan> meta = co_await ReadMeta(header->meta_length);
  if (!meta.ok()) co_return meta.status();
  watch_->Disarm();
  co_return Frame{*header, *meta};
}

io::Task<Result<ByteSpan>> FrameReader::ReadMeta(size_t length) {
  if (length > kBufferBytes) co_return co_await ReadLargeMeta(length);
  while (buffered().size() < length) {
    if (begin_ + length > kBufferBytes) Compact();
    watch_->Arm(context_->options.stall_timeout);
    EMBER_CO_RETURN_IF_ERROR(co_await Fill());
  }
  const ByteSpan meta = buffered().first(length);
  begin_ += length;
  co_return meta;
}

io::Task<Result<ByteSpan>> FrameReader::ReadLargeMeta(size_t length) {
  if (context_->large_message_bytes + length > context_->options.max_large_message_bytes) {
    co_return BusyError("too many large messages at once");
  }
  context_->large_message_bytes += large_meta_charged_ = length;
  large_meta_.assign(buffered().begin(), buffered().end());
  begin_ = end_ = 0;
  while (large_meta_.size() < length) {
    const size_t have = large_meta_.size();
    large_meta_.resize(std::min(length, have + kLargeMetaStep));
    watch_->Arm(context_->options.stall_timeout);
    Result<size_t> read =
        co_await io::ReadExactly(*stream_, MutableByteSpan(large_meta_).subspan(have));
    if (!read.ok()) co_return UnavailableError("the peer closed within a frame");
  }
  co_return ByteSpan(large_meta_);
}

void FrameReader::DropLargeMeta() {
  if (large_meta_charged_ == 0) return;
  context_->large_message_bytes -= large_meta_charged_;
  large_meta_charged_ = 0;
  large_meta_ = Bytes();
}

io::Task<Result<size_t>> FrameReader::ReadPayload(MutableByteSpan buffer) {
  after_payload_ = true;
  if (!buffered().empty()) {
    const size_t n = std::min(buffer.size(), buffered().size());
    std::memcpy(buffer.data(), buffered().data(), n);
    begin_ += n;
    co_return n;
  }
  watch_->Arm(context_->options.stall_timeout);
  Result<size_t> read = co_await stream_->ReadBulk(buffer);
  watch_->Disarm();
  if (read.ok() && *read == 0) co_return UnavailableError("the peer closed within a payload");
  co_return read;
}

io::Task<Status> FrameReader::DiscardPayload(uint64_t length) {
  const size_t from_buffer = std::min<uint64_t>(length, buffered().size());
  begin_ += from_buffer;
  length -= from_buffer;
  while (length > 0) {
    begin_ = end_ = 0;
    Result<size_t> read =
        co_await ReadPayload({buffer_.get(), std::min<uint64_t>(length, kBufferBytes)});
    if (!read.ok()) co_return read.status();
    length -= *read;
  }
  co_return OkStatus();
}

io::Task<void> FrameReader::Drain(uint64_t max) {
  begin_ = end_ = 0;
  while (max > 0) {
    Result<size_t> read =
        co_await stream_->ReadSome({buffer_.get(), std::min<uint64_t>(max, kBufferBytes)});
    if (!read.ok() || *read == 0) co_return;
    max -= *read;
  }
}

}  // namespace ember::kv
