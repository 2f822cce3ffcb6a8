#include "client/http/server_connection.h"

#include <linux/sockios.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "client/http/reply_writer.h"
#include "client/http/socket_options.h"
#include "client/http/tls_context.h"

namespace ember::http {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

// How long a client may go on sending what was refused, so that it reads the reply and not a reset.
constexpr Duration kLinger = seconds(5);
constexpr Duration kRefusalLinger = seconds(1);  // others wait for their refusal meanwhile
// A body that comes more slowly than this on the whole does not arrive in time.
constexpr size_t kMinBodyBytesPerSecond = 256;

// Its head came, and no whole body will. Nobody is told, but it is noted.
const RequestReader::Failure kLeftInBody{499, "the client left before its request's end"};

std::string NameOf(const tcp::socket& socket) {
  error_code ec;
  const tcp::endpoint peer = socket.remote_endpoint(ec);
  if (ec) return "unknown";
  asio::ip::address address = peer.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  const std::string host = address.to_string();
  return (address.is_v6() ? "[" + host + "]" : host) + ":" + std::to_string(peer.port());
}

}  // namespace

ServerConnection::ServerConnection(std::shared_ptr<ServerShared> server, Wire::Socket socket)
    : server_(std::move(server)),
      wire_(std::move(socket)),
      bytes_(wire_),
      reader_(bytes_, {server_->options.max_header_bytes, server_->options.max_body_bytes},
              server_->budget),
      watchdog_(wire_.socket().get_executor(), [this] { OnTimeout(); }),
      peer_(NameOf(wire_.socket())) {
  TuneSocket(wire_.socket());
}

void ServerConnection::Start() {
  asio::co_spawn(
      wire_.socket().get_executor(), [self = shared_from_this()] { return self->Serve(); },
      asio::detached);
}

void ServerConnection::StartRefusal() {
  asio::co_spawn(
      wire_.socket().get_executor(), [self = shared_from_this()] { return self->Refuse(); },
      asio::detached);
}

void ServerConnection::BeginDrain() {
  asio::post(wire_.socket().get_executor(), [self = shared_from_this()] {
    self->draining_ = true;
    if (self->phase_ == Phase::kIdle) self->bytes_.Wake();
  });
}

void ServerConnection::Cut() {
  asio::post(wire_.socket().get_executor(), [self = shared_from_this()] {
    self->draining_ = self->cut_ = true;
    if (self->phase_ == Phase::kHandling) self->server_->requests_cut.fetch_add(1);
    self->gone_.Cancel();
    if (self->phase_ == Phase::kReading || self->phase_ == Phase::kClosing) self->OnTimeout();
  });
}

void ServerConnection::ForceClose() {
  asio::post(wire_.socket().get_executor(), [self = shared_from_this()] {
    self->draining_ = true;
    if (!std::exchange(self->client_left_, true)) self->closed_by_us_ = true;
    self->gone_.Cancel();
    self->Close();
  });
}

void ServerConnection::Close() {
  wire_.Close();
  bytes_.Wake();
}

void ServerConnection::OnTimeout() {
  error_code ignored;
  switch (phase_) {
    case Phase::kIdle:
      break;
    case Phase::kReading:
      wire_.socket().cancel(ignored);
      break;  // the socket stays open for the 408
    case Phase::kHandling:
      CountAcknowledged(0);
      if (behind_ >= server_->options.write_timeout) return ClientGone();
      AwaitAcknowledgement();
      break;
    case Phase::kClosing:
      Close();
      break;
  }
}

asio::awaitable<void> ServerConnection::Serve() {
  try {
    for (bool first = true; (!first || co_await Secure()) && co_await ServeOne(first);)
      first = false;
    if (ends_whole_) co_await SayFarewell();
    Close();
  } catch (const std::exception& e) {
    spdlog::error("http: connection of {} ends: {}", peer_, e.what());
    client_left_ = true;
    gone_.Cancel();
    Close();
  }
  server_->Remove(this);
}

// The TLS handshake, where the server has it.
asio::awaitable<bool> ServerConnection::Secure() {
  const std::shared_ptr<TlsContext> tls = server_->tls();
  if (tls == nullptr) co_return true;
  watchdog_.ExpireAt(After(server_->options.header_timeout));
  const error_code ec = co_await wire_.AcceptTls(*tls);
  watchdog_.Disarm();
  co_return !ec;
}

asio::awaitable<bool> ServerConnection::ServeOne(bool first) {
  if (!co_await AwaitRequest(first)) co_return false;
  Request request;
  request.peer = peer_;
  request.secure = wire_.secure();
  if (const auto failure = co_await ReadRequest(&request)) {
    reader_.EndRequest(std::exchange(request.body, {}));
    if (failure->status != 0) co_await RefuseRequest(request, *failure);
    co_return false;
  }
  server_->metrics.requests.Add();
  co_return co_await Handle(request);
}

asio::awaitable<bool> ServerConnection::AwaitRequest(bool first) {
  const TimePoint until =
      After(first ? server_->options.header_timeout : server_->options.idle_timeout);
  for (;;) {
    // Empty lines before a request are legal leftovers of the one before (RFC 9112, 2.2), and begin
    // none: nobody is told that it did not arrive in time.
    while (bytes_.unread().starts_with("\r\n")) bytes_.Consume(2);
    if (!bytes_.unread().empty()) co_return true;
    if (bytes_.ended() || draining_ || !wire_.socket().is_open()) co_return false;
    phase_ = Phase::kIdle;
    WatchClient();
    co_await bytes_.Await(until);
    phase_ = Phase::kReading;
    if (bytes_.unread().empty()) co_return false;
  }
}

asio::awaitable<std::optional<RequestReader::Failure>> ServerConnection::ReadRequest(
    Request* request) {
  watchdog_.ExpireAt(After(server_->options.header_timeout));
  bool in_body = false;
  auto failure = co_await reader_.ReadHead(request);
  if (!failure && reader_.awaits_continue()) {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    std::array parts = {asio::const_buffer(kContinue.data(), kContinue.size())};
    if (Status s = co_await WriteAll(parts); !s.ok()) co_return kLeftInBody;
  }
  if (!failure && reader_.has_body()) {
    const TimePoint last = After(server_->options.body_timeout);
    size_t got = 0;
    const auto rearm = [&](size_t more) {
      got += more;
      const TimePoint slowest = last + seconds(got / kMinBodyBytesPerSecond);
      watchdog_.ExpireAt(std::min(After(server_->options.body_timeout), slowest));
    };
    rearm(0);
    failure = co_await reader_.ReadBody(&request->body, rearm);
    in_body = true;
  }
  if (failure && failure->status == 0) {
    if (watchdog_.expired()) {
      failure = RequestReader::Failure{408, "the request did not arrive in time"};
    } else if (cut_) {
      failure = RequestReader::Failure{503, "the server stops"};
    } else if (in_body) {
      failure = kLeftInBody;
    }
  }
  watchdog_.Disarm();
  co_return failure;
}

asio::awaitable<bool> ServerConnection::Handle(Request& request) {
  ReplyWriter writer(*this, {.head_only = request.method == "HEAD",
                             .http10 = reader_.http10(),
                             .keep_alive = reader_.keep_alive()});
  writer_ = &writer;
  behind_ = Duration::zero();
  phase_ = Phase::kHandling;
  WatchClient();
  try {
    co_await server_->handler(request, writer);
  } catch (const std::exception& e) {
    spdlog::error("http: handler of {} {} threw: {}", request.method, request.path, e.what());
  }
  if (!writer.finished() && !client_left_) {
    if (!cut_) server_->metrics.handler_failures.Add();
    if (writer.started()) {
      writer.Abort();
    } else if (cut_) {
      Status ignored = co_await writer.SendError(OpenAiError::OfShutdown(), {{"Retry-After", "1"}});
    } else {
      Status ignored = co_await writer.SendError(OpenAiError::ForHttpStatus(500, "internal error"));
    }
  }
  writer_ = nullptr;
  phase_ = Phase::kReading;
  probed_ = false;
  reader_.EndRequest(std::move(request.body));
  if (writer.cut_needs_reset()) {
    error_code failed;
    wire_.socket().set_option(asio::socket_base::linger(true, 0), failed);
  }
  ends_whole_ = writer.ended();
  co_return writer.reusable() && !gone_.cancelled();
}

asio::awaitable<void> ServerConnection::RefuseRequest(Request& request,
                                                      const RequestReader::Failure& failure) {
  if (failure.status == kLeftInBody.status) ClientGone();
  ReplyWriter writer(*this, {.head_only = request.method == "HEAD", .keep_alive = false});
  OpenAiError error = cut_ ? OpenAiError::OfShutdown()
                           : OpenAiError::ForHttpStatus(failure.status, failure.message);
  Headers extra;
  if (error.status == 503) extra.Add("Retry-After", "1");
  if (server_->refusal) {
    co_await server_->refusal(request, writer, std::move(error), std::move(extra));
  } else {
    const Status sent = co_await writer.SendError(std::move(error), std::move(extra));
  }
  if (!client_left_) co_await Linger(kLinger);
}

asio::awaitable<void> ServerConnection::Refuse() {
  if (!co_await Secure()) co_return EndRefusal();
  ReplyWriter writer(*this, {.keep_alive = false});
  Headers extra = {{"Retry-After", "1"}};
  Status sent = co_await writer.SendError(OpenAiError::ForHttpStatus(503, "too many connections"),
                                          std::move(extra));
  if (sent.ok()) co_await Linger(kRefusalLinger);
  EndRefusal();
}

void ServerConnection::EndRefusal() {
  Close();
  server_->refusals.fetch_sub(1);
}

asio::awaitable<void> ServerConnection::SayFarewell() {
  phase_ = Phase::kClosing;
  watchdog_.ExpireAt(After(kLinger));
  co_await wire_.SayFarewell();
  watchdog_.Disarm();
}

// Closing a socket with unread bytes makes the kernel reset it, and a reset can overtake the reply.
asio::awaitable<void> ServerConnection::Linger(Duration at_most) {
  phase_ = Phase::kClosing;
  watchdog_.ExpireAt(After(at_most));
  co_await wire_.SayFarewell();
  error_code ec;
  wire_.socket().shutdown(tcp::socket::shutdown_send, ec);
  while (!ec) ec = co_await bytes_.Discard();
  watchdog_.Disarm();
}

// Bytes on their way to the client.
int ServerConnection::Unacknowledged() {
  int n = 0;
  return ioctl(wire_.socket().native_handle(), SIOCOUTQ, &n) == 0 ? n : 0;
}

void ServerConnection::AwaitAcknowledgement() {
  waits_since_ = After(Duration::zero());
  unacknowledged_ = Unacknowledged();
  watchdog_.ExpireAt(After(server_->options.write_timeout - behind_));
}

// The wait is over, with `written` bytes more on their way, or is looked at.
void ServerConnection::CountAcknowledged(size_t written) {
  const int64_t taken = int64_t{unacknowledged_} + static_cast<int64_t>(written) - Unacknowledged();
  const auto rate = static_cast<double>(server_->options.min_read_rate);
  behind_ += After(Duration::zero()) - waits_since_;
  if (taken <= 0) return;
  const double worth_s = rate == 0 ? 1e9 : static_cast<double>(taken) / rate;
  behind_ = worth_s >= ToMilliseconds(behind_) / 1000
                ? Duration::zero()
                : behind_ - Duration(static_cast<int64_t>(worth_s * 1e9));
}

asio::awaitable<Status> ServerConnection::WriteAll(std::span<asio::const_buffer> parts) {
  for (;;) {
    DropFront(&parts, 0);
    if (parts.empty()) co_return OkStatus();
    error_code ec;
    size_t n = wire_.TryWrite(parts, ec);
    if (ec == asio::error::would_block || ec == asio::error::try_again) {
      write_pending_ = true;
      AwaitAcknowledgement();
      ec = co_await wire_.WriteSome(parts, &n);
      watchdog_.Disarm();
      if (!ec) CountAcknowledged(n);
      write_pending_ = false;
    }
    if (ec || client_left_) {
      ClientGone();
      co_return CancelledError("the client is gone");
    }
    DropFront(&parts, n);
  }
}

}  // namespace ember::http
