// The part of ServerConnection that finds out, while a handler works, whether the client is still
// there.
//
// An end of the client's stream (FIN) means either "I have closed" or "I have sent all and still
// listen"; the wire does not tell. So we send a byte that means nothing yet at that point of the
// reply (ReplyWriter::ProbeByte): a closed socket answers it with a reset, a listening one takes
// it. Under TLS nobody half-closes, so there the end alone tells.
#include <poll.h>

#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "client/http/reply_writer.h"
#include "client/http/server_connection.h"

namespace ember::http {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {
constexpr Duration kAskForEnd = milliseconds(50);
}  // namespace

void ServerConnection::ClientGone() {
  if (std::exchange(client_left_, true)) return;
  server_->metrics.client_gone.Add();
  gone_.Cancel();
  Close();
}

void ServerConnection::WatchClient() {
  if (phase_ == Phase::kHandling && bytes_.ended()) return OnClientEnd(bytes_.ended());
  bytes_.ReadAhead([self = shared_from_this()] {
    if (self->phase_ == Phase::kHandling) self->WatchClient();
  });
  if (bytes_.full()) AskForEnd();
}

// Reads tell nothing of the client's end while much is unread before it, so the kernel is asked.
void ServerConnection::AskForEnd() {
  if (std::exchange(asking_for_end_, true)) return;
  const auto timer =
      std::make_shared<asio::steady_timer>(wire_.socket().get_executor(), kAskForEnd);
  timer->async_wait([self = shared_from_this(), timer](error_code) {
    self->asking_for_end_ = false;
    if (self->phase_ != Phase::kHandling || !self->wire_.socket().is_open()) return;
    pollfd state{.fd = self->wire_.socket().native_handle(), .events = POLLRDHUP, .revents = 0};
    if (poll(&state, 1, 0) == 1) return self->OnClientEnd(asio::error::eof);
    self->AskForEnd();
  });
}

void ServerConnection::OnClientEnd(error_code why) {
  // Under TLS the end of a client's stream is its farewell.
  if (why != asio::error::eof || wire_.secure()) return ClientGone();
  WatchErrors();
  ProbeClient();
}

void ServerConnection::WatchErrors() {
  if (watching_errors_ || !wire_.socket().is_open()) return;
  watching_errors_ = true;
  wire_.socket().async_wait(tcp::socket::wait_error, [self = shared_from_this()](error_code ec) {
    self->watching_errors_ = false;
    if (ec || self->phase_ != Phase::kHandling) return;
    // Urgent data wakes this wait too.
    pollfd state{.fd = self->wire_.socket().native_handle(), .events = 0, .revents = 0};
    if (poll(&state, 1, 0) == 1 && (state.revents & (POLLERR | POLLHUP)) != 0)
      return self->ClientGone();
    self->WatchErrors();
  });
}

void ServerConnection::ProbeClient() {
  // Bytes on their way to the client do the same service.
  if (probed_ || write_pending_ || writer_ == nullptr) return;
  const std::string_view probe = writer_->ProbeByte();
  if (probe.empty()) return;
  probed_ = true;
  error_code ec;
  wire_.socket().write_some(asio::buffer(probe), ec);
  if (ec == asio::error::would_block || ec == asio::error::try_again) return;
  if (ec) return ClientGone();
  writer_->ProbeSent();
}

}  // namespace ember::http
