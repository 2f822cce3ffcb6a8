#include "client/cluster/connection.h"

#include <algorithm>

#include "proto/wire/limits.h"

namespace ember::cluster {
namespace {

constexpr size_t kSkipChunkBytes = 64 << 10;
// Of a payload: little enough to be in the cache still when it is hashed.
constexpr size_t kPayloadPiece = 256 << 10;

}  // namespace

io::Task<Result<std::unique_ptr<Connection>>> Connection::Dial(io::Loop& loop,
                                                               DialOptions options) {
  const TimePoint deadline = loop.Now() + options.timeout;
  Result<std::unique_ptr<io::Stream>> stream =
      co_await loop.Connect(options.endpoint, options.timeout);
  if (!stream.ok()) co_return stream.status();
  std::unique_ptr<Connection> connection(new Connection(loop, *std::move(stream)));
  connection->SetDeadline(deadline);
  EMBER_CO_RETURN_IF_ERROR(co_await connection->Greet(options));
  connection->ClearDeadline();
  co_return connection;
}

io::Task<Status> Connection::Greet(const DialOptions& options) {
  const wire::Hello hello{.min_version = wire::kProtocolVersion,
                          .max_version = wire::kProtocolVersion,
                          .client_name = options.client_name,
                          .expected_node_id = options.expected_node_id};
  Result<wire::HelloReply> reply =
      co_await Call<wire::HelloReply>(wire::FrameType::kHello, hello, wire::FrameType::kHelloReply);
  if (!reply.ok()) co_return reply.status();
  hello_ = *std::move(reply);
  if (hello_.version != wire::kProtocolVersion) {
    co_return Break(
        MismatchError("the node speaks protocol version " + std::to_string(hello_.version)));
  }
  if (!options.expected_node_id.empty() && hello_.node_id != options.expected_node_id) {
    co_return Break(MismatchError("node \"" + hello_.node_id + "\" answers where \"" +
                                  options.expected_node_id + "\" was expected"));
  }
  if (options.expected_shard && hello_.shard != *options.expected_shard) {
    co_return Break(MismatchError("shard " + std::to_string(hello_.shard) + " answers where " +
                                  std::to_string(*options.expected_shard) + " was expected"));
  }
  co_return OkStatus();
}

void Connection::SetDeadline(TimePoint deadline) {
  timer_ = loop_.StartTimer(deadline, [this] {
    late_ = true;
    Close();
  });
}

void Connection::Close() {
  usable_ = false;
  closed_ = true;
  stream_->Close();
}

Status Connection::Break(const Status& why) {
  usable_ = false;
  if (late_) return DeadlineError(stream_->peer_name() + ": no answer in time");
  if (closed_) return CancelledError(stream_->peer_name() + ": closed");
  return why.WithContext(stream_->peer_name());
}

io::Task<Status> Connection::Send(wire::FrameType type, uint64_t request_id, ByteSpan meta,
                                  ByteSpan payload) {
  const auto header = wire::EncodeFrameHeader(
      {type, request_id, static_cast<uint32_t>(meta.size()), payload.size()});
  const ByteSpan parts[] = {header, meta, payload};
  co_return co_await SendParts(parts);
}

io::Task<Status> Connection::SendParts(std::span<const ByteSpan> parts) {
  EMBER_CHECK(unread_payload_ == 0, "the last reply's payload was not read");
  if (Status status = co_await stream_->WriteAll(parts); !status.ok()) co_return Break(status);
  co_return OkStatus();
}

io::Task<Status> Connection::Fill(size_t needed) {
  if (begin_ > 0) {
    std::memmove(input_.data(), input_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
  }
  while (end_ < needed) {
    Result<size_t> read = co_await stream_->ReadSome(MutableByteSpan(input_).subspan(end_));
    if (!read.ok()) co_return Break(read.status());
    if (*read == 0) co_return Break(UnavailableError("closed the connection"));
    end_ += *read;
  }
  co_return OkStatus();
}

size_t Connection::TakeBuffered(MutableByteSpan out) {
  const size_t size = std::min(out.size(), end_ - begin_);
  if (size > 0) std::memcpy(out.data(), input_.data() + begin_, size);
  begin_ += size;
  return size;
}

io::Task<Status> Connection::ReadMeta(MutableByteSpan meta) {
  if (const size_t needed = std::min(meta.size(), kInputBytes); buffered().size() < needed) {
    EMBER_CO_RETURN_IF_ERROR(co_await Fill(needed));
  }
  const MutableByteSpan rest = meta.subspan(TakeBuffered(meta));
  if (Result<size_t> read = co_await io::ReadExactly(*stream_, rest); !read.ok()) {
    co_return Break(UnavailableError("closed the connection within a reply"));
  }
  co_return OkStatus();
}

io::Task<Result<Reply>> Connection::ReadReply(wire::FrameType type, uint64_t request_id) {
  EMBER_CHECK(unread_payload_ == 0, "the last reply's payload was not read");
  if (buffered().size() < wire::kFrameHeaderBytes) {
    EMBER_CO_RETURN_IF_ERROR(co_await Fill(wire::kFrameHeaderBytes));
  }
  std::array<std::byte, wire::kFrameHeaderBytes> header_bytes;
  TakeBuffered(header_bytes);
  Result<wire::FrameHeader> header = wire::DecodeFrameHeader(header_bytes);
  if (!header.ok()) {
    const bool version = header.status().code() == StatusCode::kMismatch;
    co_return Break(version ? header.status()
                            : UnavailableError(std::string(header.status().message())));
  }
  Reply reply{.header = *header, .meta = Bytes(header->meta_length)};
  EMBER_CO_RETURN_IF_ERROR(co_await ReadMeta(reply.meta));
  unread_payload_ = header->payload_length;
  if (header->type == wire::FrameType::kError &&
      (header->request_id == 0 || header->request_id == request_id)) {
    co_return ErrorOf(reply);
  }
  if (header->type != type || header->request_id != request_id) {
    co_return Break(UnavailableError("a frame that was not asked for"));
  }
  co_return reply;
}

Status Connection::ErrorOf(const Reply& reply) {
  Result<wire::ErrorReply> error = wire::Decode<wire::ErrorReply>(reply.meta);
  if (!error.ok() || unread_payload_ != 0) return Break(UnavailableError("a bad error frame"));
  // A node that reports success as an error contradicts itself.
  const StatusCode code = error->code == StatusCode::kOk ? StatusCode::kInternal : error->code;
  const Status status(code, std::move(error->message));
  const bool about_connection = reply.header.request_id == 0;
  return about_connection ? Break(status) : status.WithContext(stream_->peer_name());
}

io::Task<Status> Connection::ReadPayload(MutableByteSpan buffer, ChecksumStream* hash) {
  EMBER_CHECK(buffer.size() == unread_payload_, "a payload is read whole");
  for (size_t done = TakeBuffered(buffer), hashed = 0; hashed < buffer.size(); hashed = done) {
    const MutableByteSpan rest = buffer.subspan(done);
    if (!rest.empty()) {
      Result<size_t> read =
          co_await stream_->ReadBulk(rest.first(std::min(rest.size(), kPayloadPiece)));
      if (!read.ok()) co_return Break(read.status());
      if (*read == 0) co_return Break(UnavailableError("closed the connection within a payload"));
      done += *read;
    }
    if (hash != nullptr) hash->Update(buffer.subspan(hashed, done - hashed));
  }
  unread_payload_ = 0;
  co_return OkStatus();
}

io::Task<Status> Connection::SkipPayload() {
  Bytes nowhere(std::min<uint64_t>(unread_payload_, kSkipChunkBytes));
  while (unread_payload_ > 0) {
    const MutableByteSpan chunk =
        MutableByteSpan(nowhere).first(std::min<uint64_t>(unread_payload_, nowhere.size()));
    const MutableByteSpan rest = chunk.subspan(TakeBuffered(chunk));
    if (Result<size_t> read = co_await io::ReadExactly(*stream_, rest); !read.ok()) {
      co_return Break(UnavailableError("closed the connection within a payload"));
    }
    unread_payload_ -= chunk.size();
  }
  co_return OkStatus();
}

}  // namespace ember::cluster
