#include "tests/unit/http/test_socket.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "client/http/headers.h"

namespace ember::http {

int WireMessage::status() const { return head.size() < 12 ? 0 : std::atoi(head.c_str() + 9); }

std::string WireMessage::Field(std::string_view name) const {
  size_t at = head.find("\r\n");
  while (at != std::string::npos && at + 2 < head.size()) {
    const size_t end = head.find("\r\n", at + 2);
    const std::string line = head.substr(at + 2, end - at - 2);
    const size_t colon = line.find(": ");
    if (colon != std::string::npos && EqualNoCase(line.substr(0, colon), name))
      return line.substr(colon + 2);
    at = end;
  }
  return "";
}

TestSocket::TestSocket(TestSocket&& other) noexcept
    : fd_(other.fd_.exchange(-1)), pending_(std::move(other.pending_)) {}

TestSocket& TestSocket::operator=(TestSocket&& other) noexcept {
  Close();
  fd_ = other.fd_.exchange(-1);
  pending_ = std::move(other.pending_);
  return *this;
}

TestSocket TestSocket::ConnectTo(uint16_t port, uint8_t from) {
  TestSocket out(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + from);
  if (from != 1 && ::bind(out.fd_, reinterpret_cast<sockaddr*>(&own), sizeof own) != 0) out.Close();
  if (!out.Connect(port)) out.Close();
  return out;
}

bool TestSocket::Connect(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

bool TestSocket::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool TestSocket::Fill(std::chrono::milliseconds patience) {
  pollfd p{.fd = fd_, .events = POLLIN, .revents = 0};
  if (fd_ < 0 || poll(&p, 1, static_cast<int>(patience.count())) != 1) return false;
  std::array<char, 65536> buffer;
  const ssize_t n = recv(fd_, buffer.data(), buffer.size(), 0);
  if (n <= 0) return false;
  pending_.append(buffer.data(), static_cast<size_t>(n));
  return true;
}

std::string TestSocket::Take(size_t n) {
  std::string out = pending_.substr(0, n);
  pending_.erase(0, n);
  return out;
}

std::string TestSocket::ReadSome(std::chrono::milliseconds patience) {
  if (pending_.empty()) Fill(patience);
  return Take(pending_.size());
}

std::optional<std::string> TestSocket::ReadUntil(std::string_view mark,
                                                 std::chrono::milliseconds patience) {
  for (;;) {
    if (const size_t at = pending_.find(mark); at != std::string::npos)
      return Take(at + mark.size());
    if (!Fill(patience)) return std::nullopt;
  }
}

WireMessage TestSocket::ReadMessage(bool head_only) {
  WireMessage out;
  for (;;) {
    const auto head = ReadUntil("\r\n\r\n");
    if (!head) return out;
    out.head = *head;
    if (!out.head.starts_with("HTTP/1.1 1")) break;
    ++out.interim;
  }
  const int s = out.head.starts_with("HTTP/") ? out.status() : 0;
  out.complete = head_only || s == 204 || s == 304 || ReadBody(&out);
  return out;
}

bool TestSocket::ReadBody(WireMessage* message) {
  if (message->Field("Transfer-Encoding") == "chunked") return ReadChunks(&message->body);
  if (const std::string length = message->Field("Content-Length"); !length.empty()) {
    const size_t want = std::stoull(length);
    while (pending_.size() < want) {
      if (!Fill(kPatience)) {
        message->body = Take(pending_.size());
        return false;
      }
    }
    message->body = Take(want);
    return true;
  }
  if (message->head.starts_with("HTTP/")) message->body = ReadAll();
  return true;
}

bool TestSocket::ReadChunks(std::string* body) {
  for (;;) {
    const auto line = ReadUntil("\r\n");
    if (!line) return false;
    const size_t size = std::stoull(*line, nullptr, 16);
    while (pending_.size() < size + 2) {
      if (!Fill(kPatience)) return false;
    }
    body->append(pending_, 0, size);
    pending_.erase(0, size + 2);
    if (size == 0) return true;
  }
}

std::string TestSocket::ReadAll() {
  while (Fill(kPatience)) {
  }
  return Take(pending_.size());
}

bool TestSocket::AwaitClose(std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (std::chrono::steady_clock::now() < end) {
    pollfd p{.fd = fd_, .events = POLLIN, .revents = 0};
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (poll(&p, 1, static_cast<int>(left.count())) != 1) return false;
    if (!Fill(std::chrono::milliseconds(0))) return true;
  }
  return false;
}

bool TestSocket::StaysSilent(std::chrono::milliseconds time) {
  pollfd p{.fd = fd_, .events = POLLIN, .revents = 0};
  return pending_.empty() && poll(&p, 1, static_cast<int>(time.count())) == 0;
}

void TestSocket::ShutdownWrite() { shutdown(fd_, SHUT_WR); }

void TestSocket::Close() {
  if (fd_ >= 0) close(fd_.exchange(-1));
}

void TestSocket::Reset() {
  const linger hard{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  Close();
}

}  // namespace ember::http
