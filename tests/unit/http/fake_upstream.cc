#include "tests/unit/http/fake_upstream.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/check.h"

namespace ember::http {

bool Signal::Await(std::chrono::milliseconds patience) const {
  return Eventually([this] { return is_set(); }, patience);
}

FakeUpstream::FakeUpstream(Script script, uint16_t port)
    : script_(std::move(script)), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EMBER_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
  EMBER_CHECK(listen(listener_, 4096) == 0, "listen");
  socklen_t size = sizeof address;
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { AcceptLoop(); });
}

FakeUpstream::~FakeUpstream() {
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  close(listener_);
  for (const TestSocket& peer : peers_) {
    if (peer.fd() >= 0) shutdown(peer.fd(), SHUT_RDWR);
  }
  for (std::thread& t : threads_) t.join();
}

void FakeUpstream::AcceptLoop() {
  for (;;) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    accepted_.fetch_add(1);
    peers_.emplace_back(fd);
    threads_.emplace_back([this, peer = &peers_.back()] {
      script_(*peer);
      if (peer->fd() >= 0) shutdown(peer->fd(), SHUT_RDWR);
    });
  }
}

FakeUpstream::Script AnswerAlways(std::string reply) {
  return [reply = std::move(reply)](TestSocket& peer) {
    while (peer.ReadMessage().complete && peer.Send(reply)) {
    }
  };
}

}  // namespace ember::http
