// FrameReader: takes a connection's bytes apart into frames.
//
// Headers and messages come through a small buffer, many frames in one read if the peer pipelines
// them. A payload goes where the caller wants it, and only its first bytes, which came along with
// the header, are copied. Nothing declared is believed before it is bounded, and memory for a large
// message grows only as its bytes arrive.
// Concurrency: the loop's thread only.
#pragma once

#include <memory>

#include "client/io/stream.h"
#include "kvstore/server/server_context.h"
#include "kvstore/server/watch.h"
#include "proto/wire/frame.h"

namespace ember::kv {

class FrameReader {
 public:
  FrameReader(ServerContext* context, io::Stream* stream, Watch* watch);
  ~FrameReader();

  struct Frame {
    wire::FrameHeader header;
    ByteSpan meta;  // valid until the next call
  };
  // The next frame; its payload must be read before the one after. A limit on the watch stands from
  // the frame's first byte until the caller lifts it. kNotFound: the peer closed
  // between frames. kInvalid, kMismatch, kBusy: tell the peer, then close. Others: it is gone.
  io::Task<Result<Frame>> Next();
  // Whether Next would return without waiting.
  bool HasWholeFrame() const;
  // Waiting for the first byte of a frame.
  bool idle() const { return idle_; }

  // 1..buffer.size() bytes of the frame's payload.
  io::Task<Result<size_t>> ReadPayload(MutableByteSpan buffer);
  io::Task<Status> DiscardPayload(uint64_t length);
  // Whatever comes, to nowhere, until the peer closes or `max` bytes have come.
  io::Task<void> Drain(uint64_t max);

 private:
  ByteSpan buffered() const { return {buffer_.get() + begin_, end_ - begin_}; }
  void Compact();
  io::Task<Status> Fill();
  io::Task<Status> FillHeader();
  io::Task<Result<ByteSpan>> ReadMeta(size_t length);
  io::Task<Result<ByteSpan>> ReadLargeMeta(size_t length);
  void DropLargeMeta();

  ServerContext* const context_;
  io::Stream* const stream_;
  Watch* const watch_;
  const std::unique_ptr<std::byte[]> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  Bytes large_meta_;
  size_t large_meta_charged_ = 0;
  bool after_payload_ = false;
  bool idle_ = false;
};

}  // namespace ember::kv
