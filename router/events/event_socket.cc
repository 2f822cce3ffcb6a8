#include "router/events/event_socket.h"

#include <zmq.h>

#include <array>
#include <cstring>
#include <utility>

namespace ember::router {
namespace {

// 4.3.2 and older can be crashed by whoever they connect to.
static_assert(ZMQ_VERSION >= ZMQ_MAKE_VERSION(4, 3, 3), "libzmq is too old to face a network");

constexpr size_t kMaxFrames = 8;
constexpr int kFirstReconnectMs = 100;
constexpr int kLongestReconnectMs = 2000;
constexpr int kConnectTimeoutMs = 5000;
// A peer that vanished without a word is found by the kernel in 10 + 3 * 5 seconds.
constexpr std::array kKeepalive{
    std::pair{ZMQ_TCP_KEEPALIVE, 1}, std::pair{ZMQ_TCP_KEEPALIVE_IDLE, 10},
    std::pair{ZMQ_TCP_KEEPALIVE_INTVL, 5}, std::pair{ZMQ_TCP_KEEPALIVE_CNT, 3}};

class Frame {
 public:
  Frame() { zmq_msg_init(&message_); }
  ~Frame() { zmq_msg_close(&message_); }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  zmq_msg_t* get() { return &message_; }
  ByteSpan bytes() {
    return {static_cast<const std::byte*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)};
  }

 private:
  zmq_msg_t message_;
};

Status ZmqError(const std::string& what) {
  return UnavailableError(what + ": " + zmq_strerror(zmq_errno()));
}

}  // namespace

EventSocketContext::EventSocketContext() : context_(zmq_ctx_new()) {
  EMBER_CHECK(context_ != nullptr, "ZeroMQ starts");
  // Three for each connection.
  zmq_ctx_set(context_, ZMQ_MAX_SOCKETS, 8192);
}

EventSocketContext::~EventSocketContext() { zmq_ctx_term(context_); }

struct EventSocket::Impl {
  ~Impl() {
    if (socket != nullptr) {
      zmq_socket_monitor(socket, nullptr, 0);
      zmq_close(socket);
    }
    if (monitor != nullptr) zmq_close(monitor);
  }
  void* socket = nullptr;
  void* monitor = nullptr;
  std::array<Frame, kMaxFrames> frames;
};

EventSocket::EventSocket(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EventSocket::~EventSocket() = default;
EventSocket::EventSocket(EventSocket&&) noexcept = default;
EventSocket& EventSocket::operator=(EventSocket&&) noexcept = default;

Result<EventSocket> EventSocket::Open(EventSocketContext& context, int type,
                                      const std::string& endpoint) {
  auto impl = std::make_unique<Impl>();
  impl->socket = zmq_socket(context.context_, type);
  impl->monitor = zmq_socket(context.context_, ZMQ_PAIR);
  if (impl->socket == nullptr || impl->monitor == nullptr) return ZmqError("a ZeroMQ socket");
  bool ok = true;
  const auto set = [&](int option, int value) {
    ok = ok && zmq_setsockopt(impl->socket, option, &value, sizeof value) == 0;
  };
  set(ZMQ_RCVHWM, kMaxWaiting);
  set(ZMQ_SNDHWM, 4);
  set(ZMQ_LINGER, 0);
  set(ZMQ_IPV6, 1);
  set(ZMQ_RECONNECT_IVL, kFirstReconnectMs);
  set(ZMQ_RECONNECT_IVL_MAX, kLongestReconnectMs);
  set(ZMQ_CONNECT_TIMEOUT, kConnectTimeoutMs);
  set(ZMQ_HANDSHAKE_IVL, kConnectTimeoutMs);
  for (const auto& [option, value] : kKeepalive) set(option, value);
  ok = ok &&
       zmq_setsockopt(impl->socket, ZMQ_MAXMSGSIZE, &kMaxFrameBytes, sizeof kMaxFrameBytes) == 0;
  if (type == ZMQ_SUB) ok = ok && zmq_setsockopt(impl->socket, ZMQ_SUBSCRIBE, "", 0) == 0;
  const std::string name = "inproc://monitor-" + std::to_string(++context.monitors_);
  constexpr int kChanges = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
                           ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                           ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
  ok = ok && zmq_socket_monitor(impl->socket, name.c_str(), kChanges) == 0;
  ok = ok && zmq_connect(impl->monitor, name.c_str()) == 0;
  if (!ok) return ZmqError("a ZeroMQ socket");
  if (zmq_connect(impl->socket, endpoint.c_str()) != 0) return ZmqError("connect " + endpoint);
  return EventSocket(std::move(impl));
}

Result<EventSocket> EventSocket::Subscribe(EventSocketContext& context,
                                           const std::string& endpoint) {
  return Open(context, ZMQ_SUB, endpoint);
}

Result<EventSocket> EventSocket::AskReplay(EventSocketContext& context, const std::string& endpoint,
                                           uint64_t sequence) {
  Result<EventSocket> socket = Open(context, ZMQ_DEALER, endpoint);
  if (!socket.ok()) return socket;
  // A REQ socket would put the empty frame itself, but take one reply only.
  std::array<uint8_t, sizeof sequence> number;
  for (size_t i = 0; i < number.size(); ++i) {
    number[i] = static_cast<uint8_t>(sequence >> (8 * (number.size() - 1 - i)));
  }
  if (zmq_send(socket->impl_->socket, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0 ||
      zmq_send(socket->impl_->socket, number.data(), number.size(), ZMQ_DONTWAIT) < 0) {
    return ZmqError("ask " + endpoint);
  }
  return socket;
}

std::optional<std::vector<ByteSpan>> EventSocket::Receive() {
  std::vector<ByteSpan> frames;
  Frame beyond;
  for (;;) {
    Frame& frame = frames.size() < kMaxFrames ? impl_->frames[frames.size()] : beyond;
    if (zmq_msg_recv(frame.get(), impl_->socket, ZMQ_DONTWAIT) < 0) return std::nullopt;
    if (&frame != &beyond) frames.push_back(frame.bytes());
    if (zmq_msg_more(frame.get()) == 0) return frames;
  }
}

void EventSocket::Wait(std::span<const EventSocket* const> sockets, int wake_fd, Duration timeout) {
  std::vector<zmq_pollitem_t> items;
  items.reserve(2 * sockets.size() + 1);
  items.push_back({nullptr, wake_fd, ZMQ_POLLIN, 0});
  for (const EventSocket* socket : sockets) {
    items.push_back({socket->impl_->socket, 0, ZMQ_POLLIN, 0});
    items.push_back({socket->impl_->monitor, 0, ZMQ_POLLIN, 0});
  }
  // Rounded up, so that a deadline is over when the wait is.
  const long ms = static_cast<long>(ToMilliseconds(timeout)) + 1;
  zmq_poll(items.data(), static_cast<int>(items.size()), ms);
}

EventSocket::Change EventSocket::NextChange() {
  Frame event;
  if (zmq_msg_recv(event.get(), impl_->monitor, ZMQ_DONTWAIT) < 0) return Change::kNone;
  Frame address;
  zmq_msg_recv(address.get(), impl_->monitor, ZMQ_DONTWAIT);
  uint16_t what = 0;
  if (event.bytes().size() >= sizeof what) {
    std::memcpy(&what, event.bytes().data(), sizeof what);
  }
  if (what == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) return Change::kConnected;
  return what == ZMQ_EVENT_CONNECT_RETRIED ? Change::kRefused : Change::kLost;
}

}  // namespace ember::router
