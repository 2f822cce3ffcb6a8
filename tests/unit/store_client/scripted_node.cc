#include "tests/unit/store_client/scripted_node.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "proto/base/check.h"
#include "proto/base/random.h"

namespace ember::testing {
namespace {

bool ReadAll(int fd, MutableByteSpan out) {
  while (!out.empty()) {
    const ssize_t n = ::recv(fd, out.data(), out.size(), 0);
    if (n <= 0) return false;
    out = out.subspan(static_cast<size_t>(n));
  }
  return true;
}

bool WriteAll(int fd, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

Bytes EncodeFrame(wire::FrameType type, uint64_t id, ByteSpan meta, ByteSpan payload) {
  Bytes out;
  ByteWriter writer(&out);
  writer.PutRaw(
      wire::EncodeFrameHeader({type, id, static_cast<uint32_t>(meta.size()), payload.size()}));
  writer.PutRaw(meta);
  writer.PutRaw(payload);
  return out;
}

}  // namespace

ScriptedNode::ScriptedNode(std::string id) : id_(std::move(id)) {}

void ScriptedNode::Start(bool keep_segments) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EMBER_CHECK(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
              "bind");
  EMBER_CHECK(::listen(listener_, 128) == 0, "listen");
  socklen_t length = sizeof address;
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
  port_ = ntohs(address.sin_port);
  const std::lock_guard lock(mutex_);
  stopping_ = false;
  incarnation_ = SystemRandom().Next();
  if (!keep_segments) segments_.clear();
  if (!keep_segments) evicted_.clear();
  acceptor_ = std::thread([this] { Accept(); });
}

void ScriptedNode::Stop() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(stopping_, true)) return;
    stopping_changed_.notify_all();
    ::shutdown(listener_, SHUT_RDWR);
    for (int fd : open_) ::shutdown(fd, SHUT_RDWR);
  }
  acceptor_.join();
  {
    const std::lock_guard lock(mutex_);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
  ::close(listener_);
}

void ScriptedNode::Accept() {
  for (;;) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const std::lock_guard lock(mutex_);
    if (stopping_ || fd < 0) {
      if (fd >= 0) ::close(fd);
      if (stopping_) return;
      continue;
    }
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ++connections;
    open_.push_back(fd);
    threads_.emplace_back([this, fd] { Serve(fd); });
  }
}

void ScriptedNode::Serve(int fd) {
  Attempts attempts;
  if (Greet(fd)) {
    Frame frame;
    while (Receive(fd, &frame) && Answer(fd, frame, &attempts)) {
    }
  }
  const std::lock_guard lock(mutex_);
  std::erase(open_, fd);
  ::close(fd);
}

bool ScriptedNode::Greet(int fd) {
  Frame frame;
  if (!Receive(fd, &frame) || frame.header.type != wire::FrameType::kHello) return false;
  if (fault_ == Fault::kSilent) return Receive(fd, &frame);
  wire::HelloReply reply{.node_id = fault_ == Fault::kWrongId ? "somebody-else" : id_,
                         .max_payload_bytes = 64 << 20,
                         .view_number = 1};
  {
    const std::lock_guard lock(mutex_);
    reply.incarnation = incarnation_;
    reply.members = members_;
    reply.shm_path = shm_path_;
  }
  Bytes meta = Encode(reply);
  if (fault_ == Fault::kHugeMembers) std::memset(meta.data() + meta.size() - 4, 0xff, 4);
  return WriteAll(fd, EncodeFrame(wire::FrameType::kHelloReply, frame.header.request_id, meta, {}));
}

bool ScriptedNode::Receive(int fd, Frame* frame) {
  std::array<std::byte, wire::kFrameHeaderBytes> header;
  if (!ReadAll(fd, header)) return false;
  Result<wire::FrameHeader> decoded = wire::DecodeFrameHeader(header);
  if (!decoded.ok()) return false;
  frame->header = *decoded;
  frame->meta.resize(decoded->meta_length);
  frame->payload.resize(decoded->payload_length);
  return ReadAll(fd, frame->meta) && ReadAll(fd, frame->payload);
}

bool ScriptedNode::Answer(int fd, const Frame& frame, Attempts* attempts) {
  ++requests;
  bool handled = false;
  const bool go_on = Misbehave(fd, frame, &handled);
  if (handled) return go_on;
  switch (frame.header.type) {
    case wire::FrameType::kPing:
      return Send(fd, wire::FrameType::kPong, frame.header.request_id, {});
    case wire::FrameType::kMatch:
      return AnswerMatch(fd, frame);
    case wire::FrameType::kGet:
      return AnswerGet(fd, frame);
    case wire::FrameType::kReserve:
      return AnswerReserve(fd, frame, attempts);
    case wire::FrameType::kWrite: {
      const auto write = wire::Decode<wire::Write>(frame.meta);
      if (!write.ok()) return false;
      (*attempts)[write->token].payload = frame.payload;
      return true;
    }
    case wire::FrameType::kCommit:
      return AnswerCommit(fd, frame, attempts);
    case wire::FrameType::kRelease:
      ++releases;
      return true;
    case wire::FrameType::kReportCorrupt:
      ++corrupt_reports;
      return true;
    default:
      return true;
  }
}

// The faults that do not depend on the request.
bool ScriptedNode::Misbehave(int fd, const Frame& frame, bool* handled) {
  *handled = true;
  const uint64_t id = frame.header.request_id;
  if (frame.header.type == wire::FrameType::kReportCorrupt) return *handled = false;
  switch (fault_.load()) {
    case Fault::kMute:
      return true;
    case Fault::kClosesOnRequest:
      return false;
    case Fault::kGarbage:
      return SendRaw(fd, Bytes(200, std::byte{0x5a}));
    case Fault::kWrongReply:
      return Send(fd, wire::FrameType::kPong, id, {});
    case Fault::kWrongRequestId:
      return Send(fd, wire::FrameType::kMatchReply, id + 1, {});
    case Fault::kBusy:
      return frame.header.type == wire::FrameType::kWrite ||
             Send(fd, wire::FrameType::kError, id,
                  Encode(wire::ErrorReply{StatusCode::kBusy, "no room"}));
    default:
      *handled = false;
      return true;
  }
}

MissReason ScriptedNode::WhyAbsent(const BlockKey& key) const {
  const bool evicted = evicted_.contains(key) || fault_ == Fault::kLosesSegments;
  return evicted ? MissReason::kEvicted : MissReason::kNeverStored;
}

bool ScriptedNode::AnswerMatch(int fd, const Frame& frame) {
  const auto match = wire::Decode<wire::Match>(frame.meta);
  if (!match.ok()) return false;
  wire::MatchReply reply;
  {
    const std::lock_guard lock(mutex_);
    for (const BlockKey& key : match->keys) {
      const auto found = segments_.find(key);
      if (found == segments_.end()) {
        reply.entries.push_back({WhyAbsent(key), 0, {}});
      } else {
        reply.entries.push_back(
            {MissReason::kNone, found->second.payload.size(), found->second.generation});
      }
    }
  }
  if (fault_ == Fault::kShortMatch) reply.entries.pop_back();
  return Send(fd, wire::FrameType::kMatchReply, frame.header.request_id, Encode(reply));
}

bool ScriptedNode::AnswerGet(int fd, const Frame& frame) {
  const auto get = wire::Decode<wire::Get>(frame.meta);
  if (!get.ok()) return false;
  for (uint32_t index = 0; index < get->items.size(); ++index) {
    std::optional<Stored> segment;
    MissReason miss;
    {
      const std::lock_guard lock(mutex_);
      miss = WhyAbsent(get->items[index].key);
      const auto found = segments_.find(get->items[index].key);
      if (found != segments_.end() && fault_ != Fault::kLosesSegments) segment = found->second;
    }
    const bool sent = segment ? SendSegment(fd, frame.header.request_id, index, *std::move(segment))
                              : Send(fd, wire::FrameType::kGetReply, frame.header.request_id,
                                     Encode(wire::GetReply{.index = index, .miss = miss}));
    if (!sent) return false;
  }
  return true;
}

bool ScriptedNode::SendSegment(int fd, uint64_t id, uint32_t index, Stored segment) {
  const Fault fault = fault_;
  if (fault == Fault::kFlipsByte) segment.payload[segment.payload.size() / 2] ^= std::byte{1};
  if (fault == Fault::kFlipsHeader) segment.header[segment.header.size() / 2] ^= std::byte{1};
  if (fault == Fault::kLongPayload) segment.payload.push_back(std::byte{7});
  if (fault == Fault::kShortPayload) segment.payload.pop_back();
  {
    const std::lock_guard lock(mutex_);
    if (place_) {
      return Send(fd, wire::FrameType::kGetReply, id,
                  Encode(wire::GetReply{
                      .index = index, .header = segment.header, .lease_id = 5, .place = *place_}));
    }
  }
  const Bytes meta = Encode(wire::GetReply{.index = index, .header = segment.header});
  Bytes bytes = EncodeFrame(wire::FrameType::kGetReply, id, meta, segment.payload);
  if (fault == Fault::kClosesMidPayload) {
    SendRaw(fd, ByteSpan(bytes).first(bytes.size() - segment.payload.size() / 2));
    return false;
  }
  ++payloads_sent;
  if (fault == Fault::kStallsMidPayload) {
    const size_t half = bytes.size() - segment.payload.size() / 2;
    if (!SendRaw(fd, ByteSpan(bytes).first(half))) return false;
    while (fault_ == Fault::kStallsMidPayload) {
      if (!Pause(std::chrono::milliseconds(5))) return false;
    }
    return SendRaw(fd, ByteSpan(bytes).subspan(half));
  }
  return SendRaw(fd, bytes);
}

bool ScriptedNode::AnswerReserve(int fd, const Frame& frame, Attempts* attempts) {
  const auto reserve = wire::Decode<wire::Reserve>(frame.meta);
  if (!reserve.ok()) return false;
  wire::ReserveReply reply{.deadline_ms = 30'000};
  {
    const std::lock_guard lock(mutex_);
    for (const Bytes& encoded : reserve->headers) {
      const auto header = DecodeSegmentHeader(encoded);
      if (!header.ok()) return false;
      wire::ReserveEntry entry{.have = segments_.contains(header->key),
                               .token = {next_token_++, 1}};
      (*attempts)[entry.token] = {encoded, {}, header->generation};
      reply.entries.push_back(entry);
    }
  }
  return Send(fd, wire::FrameType::kReserveReply, frame.header.request_id, Encode(reply));
}

bool ScriptedNode::AnswerCommit(int fd, const Frame& frame, Attempts* attempts) {
  const auto commit = wire::Decode<wire::Commit>(frame.meta);
  if (!commit.ok()) return false;
  wire::CommitReply reply;
  for (const wire::AttemptToken& token : commit->tokens) {
    Stored stored = std::move((*attempts)[token]);
    const auto header = DecodeSegmentHeader(stored.header);
    const bool good = header.ok() && Xxh3Of(stored.payload) == header->checksum &&
                      fault_ != Fault::kRefusesCommit;
    reply.entries.push_back({good ? StatusCode::kOk : StatusCode::kCorrupt, AckLevel::kMemory});
    const std::lock_guard lock(mutex_);
    if (good) segments_[header->key] = std::move(stored);
  }
  return Send(fd, wire::FrameType::kCommitReply, frame.header.request_id, Encode(reply));
}

bool ScriptedNode::Send(int fd, wire::FrameType type, uint64_t id, ByteSpan meta,
                        ByteSpan payload) {
  return SendRaw(fd, EncodeFrame(type, id, meta, payload));
}

bool ScriptedNode::SendRaw(int fd, ByteSpan bytes) {
  while (fault_ == Fault::kTrickle && !bytes.empty()) {
    if (!WriteAll(fd, bytes.first(1)) || !Pause(std::chrono::milliseconds(50))) return false;
    bytes = bytes.subspan(1);
  }
  return WriteAll(fd, bytes);
}

bool ScriptedNode::Pause(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !stopping_changed_.wait_for(lock, time, [this] { return stopping_; });
}

void ScriptedNode::Evict(const BlockKey& key) {
  const std::lock_guard lock(mutex_);
  segments_.erase(key);
  evicted_.insert(key);
}

bool ScriptedNode::Has(const BlockKey& key) {
  const std::lock_guard lock(mutex_);
  return segments_.contains(key);
}

}  // namespace ember::testing
