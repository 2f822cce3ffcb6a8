// Connection: one data-plane connection to a node whose hello has been checked.
//
// Operation: one exchange at a time; the caller sends frames, then reads the replies it expects, in
// order. Whatever leaves the stream's state in doubt (a lost or garbled stream, a frame that was
// not asked for, a deadline, payload left unread) makes the connection unusable, for good. An error
// that the node reports for a request does not.
//
// Concurrency: the loop's thread only. Life: outlives its pending operation.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "client/io/loop.h"
#include "proto/base/checksum.h"
#include "proto/base/time.h"
#include "proto/wire/frame.h"
#include "proto/wire/messages.h"

namespace ember::cluster {

struct DialOptions {
  io::Endpoint endpoint;
  std::string client_name;
  std::string expected_node_id;  // empty: any
  std::optional<uint32_t> expected_shard;
  Duration timeout = milliseconds(500);  // for connect and hello together
};

// A reply's header and message; its payload, if any, is still in the stream.
struct Reply {
  wire::FrameHeader header;
  Bytes meta;
};

class Connection {
 public:
  // kMismatch when another node or shard, or another protocol version, answers at that address.
  static io::Task<Result<std::unique_ptr<Connection>>> Dial(io::Loop& loop, DialOptions options);

  // From now until ClearDeadline, passing `deadline` closes the stream: the pending operation ends
  // with kDeadline after the kernel has let go of its buffer.
  void SetDeadline(TimePoint deadline);
  void ClearDeadline() { timer_.reset(); }
  // As a deadline, but the pending operation ends with kCancelled.
  void Close();

  uint64_t NextRequestId() { return next_request_id_++; }

  // Writes one frame.
  io::Task<Status> Send(wire::FrameType type, uint64_t request_id, ByteSpan meta,
                        ByteSpan payload = {});
  // Writes frames that were encoded by the caller; at most io::kMaxGatherParts parts.
  io::Task<Status> SendParts(std::span<const ByteSpan> parts);
  // The next frame, which must be `type` for `request_id`. An error frame for it is returned as the
  // node's own status.
  io::Task<Result<Reply>> ReadReply(wire::FrameType type, uint64_t request_id);
  // Exactly the payload of the last reply. `buffer` is not touched after it ends. `hash`, unless
  // null, is updated with what is in the buffer, piece by piece while it is in the cache.
  io::Task<Status> ReadPayload(MutableByteSpan buffer, ChecksumStream* hash = nullptr);
  // Reads it to nowhere.
  io::Task<Status> SkipPayload();

  // The next frame, as ReadReply, of a type without payload.
  template <typename ReplyMessage>
  io::Task<Result<ReplyMessage>> ReadMessage(wire::FrameType type, uint64_t request_id) {
    Result<Reply> reply = co_await ReadReply(type, request_id);
    if (!reply.ok()) co_return reply.status();
    if (unread_payload_ != 0) co_return Break(UnavailableError("a payload where none belongs"));
    Result<ReplyMessage> decoded = wire::Decode<ReplyMessage>(reply->meta);
    if (!decoded.ok()) co_return Break(UnavailableError(std::string(decoded.status().message())));
    co_return decoded;
  }
  // One message, one reply without payload.
  template <typename ReplyMessage, typename Message>
  io::Task<Result<ReplyMessage>> Call(wire::FrameType type, const Message& message,
                                      wire::FrameType reply_type) {
    const uint64_t id = NextRequestId();
    const Bytes meta = wire::Encode(message);
    EMBER_CO_RETURN_IF_ERROR(co_await Send(type, id, meta));
    co_return co_await ReadMessage<ReplyMessage>(reply_type, id);
  }

  // Marks the connection unusable and returns `why` with the node's address.
  Status Break(const Status& why);
  bool usable() const { return usable_ && unread_payload_ == 0 && buffered().empty(); }
  const wire::HelloReply& hello() const { return hello_; }
  // Exchanges that went well so far; kept by the owner.
  uint64_t completed = 0;

 private:
  Connection(io::Loop& loop, std::unique_ptr<io::Stream> stream)
      : loop_(loop), stream_(std::move(stream)) {}
  io::Task<Status> Greet(const DialOptions& options);
  // At least `needed` bytes into the input buffer, at most its size.
  io::Task<Status> Fill(size_t needed);
  io::Task<Status> ReadMeta(MutableByteSpan meta);
  ByteSpan buffered() const { return ByteSpan(input_).subspan(begin_, end_ - begin_); }
  Status ErrorOf(const Reply& reply);
  // Moves what is buffered of `out` into it; how much.
  size_t TakeBuffered(MutableByteSpan out);

  // Headers, messages, and whatever came along with them: a read for each would be most of the cost
  // of a small segment. Payloads bypass it but for their first bytes.
  static constexpr size_t kInputBytes = 2048;

  io::Loop& loop_;
  const std::unique_ptr<io::Stream> stream_;
  std::unique_ptr<io::Loop::Timer> timer_;
  std::array<std::byte, kInputBytes> input_;
  size_t begin_ = 0;
  size_t end_ = 0;
  wire::HelloReply hello_;
  uint64_t next_request_id_ = 1;
  uint64_t unread_payload_ = 0;
  bool usable_ = true;
  bool closed_ = false;
  bool late_ = false;
};

}  // namespace ember::cluster
