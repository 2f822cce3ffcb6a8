// RawClient: a blocking client that speaks frames and can break every rule. One thread each.
// Whatever takes longer than 20 s fails.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proto/wire/frame.h"
#include "proto/wire/messages.h"
#include "tests/unit/kvstore/test_segments.h"

namespace ember::kv::testing {

struct RawFrame {
  wire::FrameHeader header;
  Bytes meta;
  Bytes payload;
};

class RawClient {
 public:
  explicit RawClient(uint16_t port, int receive_buffer = 0);
  ~RawClient();
  RawClient(const RawClient&) = delete;

  // Connected and greeted.
  static std::unique_ptr<RawClient> Greeted(uint16_t port);

  // Raw bytes. False when the node has closed.
  bool SendBytes(ByteSpan bytes);
  bool SendFrame(wire::FrameType type, uint64_t id, ByteSpan meta, ByteSpan payload = {});
  // Nothing when the node closed.
  std::optional<RawFrame> ReadFrame();
  // The error frame that must come, and the close after it.
  std::optional<wire::ErrorReply> ReadErrorAndClose();
  // Whether the node closes, without sending anything more.
  bool WaitForClose();
  // Everything that comes until the node closes.
  std::string ReadUntilClosed();
  void CloseAbruptly();  // with a reset

  template <typename Reply>
  Reply Call(wire::FrameType type, ByteSpan meta) {
    EMBER_CHECK(SendFrame(type, ++last_id_, meta), "the node is gone");
    std::optional<RawFrame> frame = ReadFrame();
    EMBER_CHECK(frame && frame->header.request_id == last_id_, "no reply");
    return *wire::Decode<Reply>(frame->meta);
  }

  bool Hello(wire::Hello hello = {.client_name = "raw"});
  // The node's.
  const wire::HelloReply& hello() const { return hello_; }
  wire::ReserveReply Reserve(const std::vector<Bytes>& headers);
  wire::ReserveEntry ReserveOne(const TestSegment& segment) {
    return Reserve({segment.encoded_header}).entries.at(0);
  }
  void Write(const wire::AttemptToken& token, uint64_t offset, ByteSpan bytes);
  std::vector<StatusCode> Commit(std::vector<wire::AttemptToken> tokens);
  // Reserve, write, commit. kOk too when it was there.
  StatusCode Put(const TestSegment& segment);
  wire::MatchReply Match(const std::vector<uint64_t>& numbers, uint32_t lease_ms = 0);

  struct Got {
    wire::GetReply reply;
    Bytes payload;
  };
  std::vector<Got> Get(const std::vector<wire::GetItem>& items, uint32_t in_place_lease_ms = 0);
  Got GetOne(uint64_t number, uint64_t offset = 0, uint64_t length = 0) {
    return std::move(Get({{KeyOf(number), offset, length}}).at(0));
  }
  void Release(uint64_t lease_id) {
    SendFrame(wire::FrameType::kRelease, ++last_id_, Encode(wire::Release{lease_id}));
  }
  bool Ping();

 private:
  bool ReadBytes(MutableByteSpan out);

  int fd_;
  uint64_t last_id_ = 0;
  wire::HelloReply hello_;
};

}  // namespace ember::kv::testing
