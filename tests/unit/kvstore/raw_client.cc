#include "tests/unit/kvstore/raw_client.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ember::kv::testing {
namespace {

constexpr int kPatienceSeconds = 20;

// The kernel interrupts system calls when an io_uring of this process is torn down.
template <typename Call>
ssize_t Uninterrupted(Call call) {
  ssize_t n;
  do n = call();
  while (n < 0 && errno == EINTR);
  return n;
}

bool Connect(int fd, const sockaddr_in& address) {
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return true;
  if (errno != EINTR) return false;
  // It goes on by itself.
  pollfd writable{fd, POLLOUT, 0};
  Uninterrupted([&] { return poll(&writable, 1, kPatienceSeconds * 1000); });
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
}

}  // namespace

RawClient::RawClient(uint16_t port, int receive_buffer) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
  const timeval patience{kPatienceSeconds, 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (receive_buffer > 0) {
    setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  }
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EMBER_CHECK(Connect(fd_, address), "connect to the node");
}

RawClient::~RawClient() {
  if (fd_ >= 0) close(fd_);
}

void RawClient::CloseAbruptly() {
  const linger reset{1, 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  close(std::exchange(fd_, -1));
}

std::unique_ptr<RawClient> RawClient::Greeted(uint16_t port) {
  auto client = std::make_unique<RawClient>(port);
  EMBER_CHECK(client->Hello(), "no hello from the node");
  return client;
}

bool RawClient::SendBytes(ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t n =
        Uninterrupted([&] { return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

bool RawClient::ReadBytes(MutableByteSpan out) {
  while (!out.empty()) {
    const ssize_t n = Uninterrupted([&] { return recv(fd_, out.data(), out.size(), 0); });
    if (n <= 0) return false;
    out = out.subspan(static_cast<size_t>(n));
  }
  return true;
}

bool RawClient::SendFrame(wire::FrameType type, uint64_t id, ByteSpan meta, ByteSpan payload) {
  const auto header =
      wire::EncodeFrameHeader({type, id, static_cast<uint32_t>(meta.size()), payload.size()});
  Bytes head(header.begin(), header.end());
  head.insert(head.end(), meta.begin(), meta.end());
  return SendBytes(head) && SendBytes(payload);
}

std::optional<RawFrame> RawClient::ReadFrame() {
  std::array<std::byte, wire::kFrameHeaderBytes> bytes;
  if (!ReadBytes(bytes)) return std::nullopt;
  Result<wire::FrameHeader> header = wire::DecodeFrameHeader(bytes);
  EMBER_CHECK(header.ok(), "the node sent no frame");
  RawFrame frame{*header, Bytes(header->meta_length), Bytes(header->payload_length)};
  if (!ReadBytes(frame.meta) || !ReadBytes(frame.payload)) return std::nullopt;
  return frame;
}

std::optional<wire::ErrorReply> RawClient::ReadErrorAndClose() {
  std::optional<RawFrame> frame = ReadFrame();
  if (!frame || frame->header.type != wire::FrameType::kError || frame->header.request_id != 0) {
    return std::nullopt;
  }
  Result<wire::ErrorReply> error = wire::Decode<wire::ErrorReply>(frame->meta);
  if (!error.ok() || !WaitForClose()) return std::nullopt;
  return *error;
}

bool RawClient::WaitForClose() {
  std::byte b;
  const ssize_t n = Uninterrupted([&] { return recv(fd_, &b, 1, 0); });
  return n == 0 || (n < 0 && errno == ECONNRESET);
}

std::string RawClient::ReadUntilClosed() {
  std::string out;
  char buffer[4096];
  ssize_t n;
  while ((n = Uninterrupted([&] { return recv(fd_, buffer, sizeof buffer, 0); })) > 0) {
    out.append(buffer, static_cast<size_t>(n));
  }
  return out;
}

bool RawClient::Hello(wire::Hello hello) {
  if (!SendFrame(wire::FrameType::kHello, 7, Encode(hello))) return false;
  std::optional<RawFrame> frame = ReadFrame();
  if (!frame || frame->header.type != wire::FrameType::kHelloReply) return false;
  Result<wire::HelloReply> reply = wire::Decode<wire::HelloReply>(frame->meta);
  if (!reply.ok()) return false;
  hello_ = *std::move(reply);
  return true;
}

wire::ReserveReply RawClient::Reserve(const std::vector<Bytes>& headers) {
  return Call<wire::ReserveReply>(wire::FrameType::kReserve, Encode(wire::Reserve{headers}));
}

void RawClient::Write(const wire::AttemptToken& token, uint64_t offset, ByteSpan bytes) {
  SendFrame(wire::FrameType::kWrite, ++last_id_, Encode(wire::Write{token, offset}), bytes);
}

std::vector<StatusCode> RawClient::Commit(std::vector<wire::AttemptToken> tokens) {
  const wire::Commit commit{std::move(tokens)};
  std::vector<StatusCode> codes;
  for (const auto& entry :
       Call<wire::CommitReply>(wire::FrameType::kCommit, Encode(commit)).entries) {
    codes.push_back(entry.code);
  }
  return codes;
}

StatusCode RawClient::Put(const TestSegment& segment) {
  const wire::ReserveEntry entry = ReserveOne(segment);
  if (entry.code != StatusCode::kOk || entry.have) return entry.code;
  Write(entry.token, 0, segment.payload);
  return Commit({entry.token}).at(0);
}

wire::MatchReply RawClient::Match(const std::vector<uint64_t>& numbers, uint32_t lease_ms) {
  wire::Match match{.keys = {}, .lease_ms = lease_ms};
  for (uint64_t number : numbers) match.keys.push_back(KeyOf(number));
  return Call<wire::MatchReply>(wire::FrameType::kMatch, Encode(match));
}

std::vector<RawClient::Got> RawClient::Get(const std::vector<wire::GetItem>& items,
                                           uint32_t in_place_lease_ms) {
  const wire::Get get{items, in_place_lease_ms};
  EMBER_CHECK(SendFrame(wire::FrameType::kGet, ++last_id_, Encode(get)), "the node is gone");
  std::vector<Got> out;
  for (uint32_t i = 0; i < items.size(); ++i) {
    std::optional<RawFrame> frame = ReadFrame();
    EMBER_CHECK(frame && frame->header.type == wire::FrameType::kGetReply, "no get reply");
    Result<wire::GetReply> reply = wire::Decode<wire::GetReply>(frame->meta);
    EMBER_CHECK(reply.ok() && reply->index == i, "get replies come in order");
    out.push_back({*std::move(reply), std::move(frame->payload)});
  }
  return out;
}

bool RawClient::Ping() {
  if (!SendFrame(wire::FrameType::kPing, ++last_id_, {})) return false;
  std::optional<RawFrame> frame = ReadFrame();
  return frame && frame->header.type == wire::FrameType::kPong &&
         frame->header.request_id == last_id_;
}

}  // namespace ember::kv::testing
