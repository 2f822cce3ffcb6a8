// ReplyQueue: replies that are made and not yet written, as one gather list: frame headers and
// messages from a buffer of its own, payloads from where their segments lie.
//
// A payload's Pin is kept until the kernel has taken the bytes. The owner flushes when full() and
// before it waits for the peer; so what a slow reader holds back is bounded by kFullPayload and one
// segment. The loop's thread only.
#pragma once

#include <vector>

#include "client/io/stream.h"
#include "kvstore/server/server_context.h"
#include "kvstore/server/watch.h"
#include "proto/wire/frame.h"

namespace ember::kv {

class ReplyQueue {
 public:
  ReplyQueue(ServerContext* context, io::Stream* stream, Watch* watch)
      : context_(context), stream_(stream), watch_(watch) {}

  void Add(wire::FrameType type, uint64_t request_id, ByteSpan meta) {
    Add(type, request_id, meta, {}, {});
  }
  // `payload` lies in the pinned segment.
  void Add(wire::FrameType type, uint64_t request_id, ByteSpan meta, ByteSpan payload, Pin pin);
  bool full() const;
  // Writes everything.
  io::Task<Status> Flush();

 private:
  struct Part {
    size_t heads_end = 0;  // headers and messages up to here come before the payload
    ByteSpan payload;
  };

  std::vector<ByteSpan> GatherList() const;

  ServerContext* const context_;
  io::Stream* const stream_;
  Watch* const watch_;
  Bytes heads_;
  std::vector<Part> parts_;
  std::vector<Pin> pins_;
  size_t payload_bytes_ = 0;
};

}  // namespace ember::kv
