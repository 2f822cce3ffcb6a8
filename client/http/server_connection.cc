#include "client/http/server_connection.h"

#include <poll.h>
#include <spdlog/spdlog.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "client/http/await.h"
#include "client/http/reply_writer.h"
#include "client/http/socket_options.h"

namespace ember::http {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

// How long a client may go on sending what was refused, so that it reads the reply and not a reset.
constexpr Duration kLinger = seconds(5);

std::string NameOf(const tcp::socket& socket) {
  error_code ec;
  const tcp::endpoint peer = socket.remote_endpoint(ec);
  if (ec) return "unknown";
  const std::string host = peer.address().to_string();
  return (peer.address().is_v6() ? "[" + host + "]" : host) + ":" + std::to_string(peer.port());
}

}  // namespace

ServerConnection::ServerConnection(std::shared_ptr<ServerShared> server, tcp::socket socket)
    : server_(std::move(server)),
      socket_(std::move(socket)),
      reader_(socket_, {server_->options.max_header_bytes, server_->options.max_body_bytes},
              server_->budget),
      watchdog_(socket_.get_executor(), [this] { OnTimeout(); }),
      idle_timer_(socket_.get_executor()),
      peer_(NameOf(socket_)) {
  TuneSocket(socket_);
}

void ServerConnection::Start() {
  asio::co_spawn(
      socket_.get_executor(), [self = shared_from_this()] { return self->Serve(); },
      asio::detached);
}

void ServerConnection::StartRefusal() {
  asio::co_spawn(
      socket_.get_executor(), [self = shared_from_this()] { return self->Refuse(); },
      asio::detached);
}

void ServerConnection::BeginDrain() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->draining_ = true;
    if (self->phase_ == Phase::kIdle) self->idle_timer_.cancel();
  });
}

void ServerConnection::ForceClose() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->draining_ = true;
    self->gone_.Cancel();
    self->Close();
  });
}

void ServerConnection::Close() {
  error_code ignored;
  socket_.close(ignored);
  idle_timer_.cancel();
}

void ServerConnection::OnTimeout() {
  error_code ignored;
  switch (phase_) {
    case Phase::kIdle:
      break;
    case Phase::kReading:
      socket_.cancel(ignored);
      break;  // the socket stays open for the 408
    case Phase::kHandling:
      ClientGone();
      break;
    case Phase::kClosing:
      Close();
      break;
  }
}

asio::awaitable<void> ServerConnection::Serve() {
  try {
    for (bool first = true; co_await ServeOne(first);) first = false;
    Close();
  } catch (const std::exception& e) {
    spdlog::error("http: connection of {} ends: {}", peer_, e.what());
    gone_.Cancel();
    Close();
  }
  server_->Remove(this);
}

asio::awaitable<bool> ServerConnection::ServeOne(bool first) {
  if (!co_await AwaitRequest(first)) co_return false;
  Request request;
  request.peer = peer_;
  if (const auto failure = co_await ReadRequest(&request)) {
    if (failure->status != 0) co_await RefuseRequest(*failure);
    co_return false;
  }
  server_->metrics.requests.Add();
  co_return co_await Handle(request);
}

// The idle timer is both the time-out and, cancelled, the wake-up.
asio::awaitable<bool> ServerConnection::AwaitRequest(bool first) {
  if (reader_.HasBufferedBytes()) co_return true;
  if (client_finished_ || draining_ || !socket_.is_open()) co_return false;
  phase_ = Phase::kIdle;
  request_ready_ = false;
  idle_timer_.expires_at(
      After(first ? server_->options.header_timeout : server_->options.idle_timeout));
  WatchReads();
  co_await idle_timer_.async_wait(kAwait);
  phase_ = Phase::kReading;
  co_return request_ready_;
}

asio::awaitable<std::optional<RequestReader::Failure>> ServerConnection::ReadRequest(
    Request* request) {
  watchdog_.ExpireAt(After(server_->options.header_timeout));
  auto failure = co_await reader_.ReadHead(request);
  if (!failure && reader_.awaits_continue()) {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    std::array parts = {asio::const_buffer(kContinue.data(), kContinue.size())};
    if (Status s = co_await WriteAll(parts); !s.ok()) co_return RequestReader::Failure{};
  }
  if (!failure && reader_.has_body()) {
    const auto rearm = [this] { watchdog_.ExpireAt(After(server_->options.body_timeout)); };
    rearm();
    failure = co_await reader_.ReadBody(&request->body, rearm);
  }
  if (failure && failure->status == 0 && watchdog_.expired()) {
    failure = RequestReader::Failure{408, "the request did not arrive in time"};
  }
  watchdog_.Disarm();
  co_return failure;
}

asio::awaitable<bool> ServerConnection::Handle(Request& request) {
  ReplyWriter writer(*this, {.head_only = request.method == "HEAD",
                             .http10 = reader_.http10(),
                             .keep_alive = reader_.keep_alive()});
  writer_ = &writer;
  phase_ = Phase::kHandling;
  if (!client_finished_) WatchReads();
  try {
    co_await server_->handler(request, writer);
  } catch (const std::exception& e) {
    spdlog::error("http: handler of {} {} threw: {}", request.method, request.path, e.what());
  }
  if (!writer.finished() && !gone_.cancelled()) {
    server_->metrics.handler_failures.Add();
    if (writer.started()) {
      writer.Abort();
    } else {
      Status ignored = co_await writer.SendError(OpenAiError::ForHttpStatus(500, "internal error"));
    }
  }
  writer_ = nullptr;
  phase_ = Phase::kReading;
  probed_ = false;
  reader_.EndRequest();
  if (writer.cut_needs_reset()) {
    error_code failed;
    socket_.set_option(asio::socket_base::linger(true, 0), failed);
  }
  co_return writer.reusable() && !gone_.cancelled();
}

asio::awaitable<void> ServerConnection::RefuseRequest(const RequestReader::Failure& failure) {
  ReplyWriter writer(*this, {.keep_alive = false});
  Status sent =
      co_await writer.SendError(OpenAiError::ForHttpStatus(failure.status, failure.message));
  if (sent.ok()) co_await Linger();
}

asio::awaitable<void> ServerConnection::Refuse() {
  ReplyWriter writer(*this, {.keep_alive = false});
  Headers extra = {{"Retry-After", "1"}};
  Status sent = co_await writer.SendError(OpenAiError::ForHttpStatus(503, "too many connections"),
                                          std::move(extra));
  if (sent.ok()) co_await Linger();
  Close();
  server_->refusals.fetch_sub(1);
}

// Closing a socket with unread bytes makes the kernel reset it, and a reset can overtake the reply.
asio::awaitable<void> ServerConnection::Linger() {
  phase_ = Phase::kClosing;
  watchdog_.ExpireAt(After(kLinger));
  error_code ec;
  socket_.shutdown(tcp::socket::shutdown_send, ec);
  std::array<char, 4096> discarded;
  while (!ec) {
    size_t n = 0;
    std::tie(ec, n) = co_await socket_.async_read_some(asio::buffer(discarded), kAwait);
  }
  watchdog_.Disarm();
}

asio::awaitable<Status> ServerConnection::WriteAll(std::span<asio::const_buffer> parts) {
  if (!unsent_.empty()) {
    const std::string rest = std::exchange(unsent_, {});
    std::array first = {asio::const_buffer(rest.data(), rest.size())};
    EMBER_CO_RETURN_IF_ERROR(co_await WriteAll(first));
  }
  for (;;) {
    while (!parts.empty() && parts.front().size() == 0) parts = parts.subspan(1);
    if (parts.empty()) co_return OkStatus();
    error_code ec;
    size_t n = socket_.write_some(parts, ec);
    if (ec == asio::error::would_block || ec == asio::error::try_again) {
      write_pending_ = true;
      watchdog_.ExpireAt(After(server_->options.write_timeout));
      std::tie(ec) = co_await socket_.async_wait(tcp::socket::wait_write, kAwait);
      watchdog_.Disarm();
      write_pending_ = false;
    }
    if (ec || gone_.cancelled()) {
      ClientGone();
      co_return CancelledError("the client is gone");
    }
    for (asio::const_buffer& part : parts) {
      const size_t taken = std::min(n, part.size());
      part += taken;
      n -= taken;
    }
  }
}

}  // namespace ember::http
