#include "client/http/http_exchange.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/error.hpp>
#include <utility>

#include "client/http/await.h"
#include "client/http/message_reader.h"
#include "client/http/name_resolver.h"
#include "client/http/socket_options.h"
#include "client/http/tls_context.h"

namespace ember::http {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr uint32_t kMaxHeadBytes = 64 << 10;
constexpr int kMaxInterimReplies = 16;

std::string RequestHead(const UpstreamRequest& request, const Origin& origin) {
  std::string out = request.method + " " + request.target + " HTTP/1.1\r\nHost: ";
  out += request.host.empty() ? origin.HostHeader() : request.host;
  out += "\r\n";
  request.headers.AppendTo(&out);
  const bool usually_has_body = request.method != "GET" && request.method != "HEAD";
  if (!request.body.empty() || usually_has_body) {
    out += "Content-Length: " + std::to_string(request.body.size()) + "\r\n";
  }
  out += "\r\n";
  return out;
}

void CheckReplyChunk(uint64_t, boost::beast::string_view extension, error_code& ec) {
  if (!IsChunkExtension(extension)) ec = http::error::bad_chunk_extension;
}

bool IsRequestLineSafe(std::string_view part) {
  for (const char c : part) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7F) return false;
  }
  return !part.empty();
}

// HTTP/1.0 has no transfer coding.
bool OnlyChunked(const http::response_header<>& head) {
  const size_t codings = head.count(http::field::transfer_encoding);
  return codings == 0 || (codings == 1 && head.version() == 11 &&
                          boost::beast::iequals(head[http::field::transfer_encoding], "chunked"));
}

// Says nothing of the upstream.
bool IsOurShortage(error_code ec) {
  return ec == asio::error::no_descriptors || ec == asio::error::no_buffer_space ||
         ec == asio::error::no_memory || ec.value() == ENFILE || ec.value() == EADDRNOTAVAIL;
}

// How many servers of TLS answer a request in plain text.
bool IsTlsAlert(std::string_view bytes) { return bytes.starts_with("\x15\x03"); }

bool IsHttpError(error_code ec) {
  return ec.category() == http::make_error_code(http::error::bad_method).category() &&
         ec != http::error::end_of_stream && ec != http::error::partial_message;
}

}  // namespace

HttpExchange::HttpExchange(const asio::any_io_executor& strand,
                           std::shared_ptr<UpstreamStore> store, Origin origin,
                           const ExchangeOptions& options)
    : store_(std::move(store)),
      origin_(std::move(origin)),
      options_(options),
      deadline_(After(options.deadline)),
      strand_(strand),
      watchdog_(strand, [this] {
        timed_out_ = true;
        Interrupt();
      }) {}

HttpExchange::~HttpExchange() {
  connection_.reset();
  if (holds_reservation_) store_->Drop(origin_, options_.aside);
}

void HttpExchange::Interrupt() {
  interrupted_ = true;
  lookup_stop_.Cancel();
  if (connection_) connection_->wire.Close();
}

void HttpExchange::LimitPhase(Duration limit) {
  watchdog_.ExpireAt(std::min(After(limit), deadline_));
}

Status HttpExchange::Why(error_code ec, std::string_view doing) const {
  const std::string what = std::string(doing) + " " + origin_.ToString();
  if (options_.cancellation != nullptr && options_.cancellation->cancelled())
    return CancelledError(what);
  const bool no_head = parser_ && !parser_->is_header_done();
  if (no_head && !origin_.https && IsTlsAlert(connection_->unread())) {
    return CorruptError(what + ": it speaks TLS; is it https?");
  }
  if (timed_out_) return DeadlineError(what + ": time-out");
  if (IsHttpError(ec)) return CorruptError(what + ": " + ec.message());
  if (ec == http::error::end_of_stream || ec == http::error::partial_message) {
    return UnavailableError(what + ": connection closed");
  }
  return UnavailableError(what + ": " + ec.message());
}

asio::awaitable<error_code> HttpExchange::ConnectToName() {
  const NameResolver::Answer found = co_await store_->names.LookUp(origin_.host, &lookup_stop_);
  if (interrupted_) co_return make_error_code(asio::error::operation_aborted);
  if (found.ec) co_return found.ec;
  std::vector<tcp::endpoint> endpoints;
  for (const asio::ip::address& address : found.addresses) {
    endpoints.emplace_back(address, origin_.port);
  }
  const auto [failed, endpoint] =
      co_await asio::async_connect(connection_->wire.socket(), endpoints, kAwait);
  co_return failed;
}

asio::awaitable<error_code> HttpExchange::ConnectSocket() {
  connection_ = std::make_unique<UpstreamConnection>(store_->executor);
  error_code ec;
  const asio::ip::address address = asio::ip::make_address(origin_.host, ec);
  if (ec) {
    ec = co_await ConnectToName();
  } else {
    std::tie(ec) =
        co_await connection_->wire.socket().async_connect({address, origin_.port}, kAwait);
  }
  co_return ec;
}

asio::awaitable<Status> HttpExchange::Connect() {
  LimitPhase(options_.connect_timeout);
  store_->metrics.connects.Add();
  error_code ec = co_await ConnectSocket();
  if (IsOurShortage(ec) && !interrupted_) {
    store_->CloseIdle();
    ec = co_await ConnectSocket();
  }
  if (IsOurShortage(ec)) {
    co_return BusyError("connect to " + origin_.ToString() + ": " + ec.message());
  }
  if (ec || !connection_->wire.socket().is_open()) co_return Why(ec, "connect to");
  TuneSocket(connection_->wire.socket());
  co_return origin_.https ? co_await Secure() : OkStatus();
}

asio::awaitable<Status> HttpExchange::Secure() {
  const auto context = store_->Tls();
  if (!context.ok()) co_return context.status();
  const Status secured = co_await connection_->wire.ConnectTls(**context, origin_.server_name());
  if (secured.ok()) co_return secured;
  const std::string what = "connect to " + origin_.ToString();
  if (timed_out_) co_return DeadlineError(what + ": time-out; does it speak TLS?");
  co_return interrupted_ ? CancelledError(what) : secured.WithContext(what);
}

asio::awaitable<Status> HttpExchange::Run(const UpstreamRequest& request) {
  if (!IsRequestLineSafe(request.method) || !IsRequestLineSafe(request.target)) {
    co_return InvalidError("method or target cannot stand in a request line");
  }
  if (options_.cancellation != nullptr) {
    if (options_.cancellation->cancelled()) co_return CancelledError("before the exchange");
    cancel_registration_ = options_.cancellation->OnCancel([this] { Interrupt(); });
  }
  const std::string head = RequestHead(request, origin_);
  if (!options_.fresh) connection_ = store_->TakeIdle(origin_);
  reused_ = connection_ != nullptr;
  if (reused_) {
    store_->metrics.reuses.Add();
    Status s = co_await Attempt(head, request);
    if (s.ok() || !stale_) co_return s;
    store_->metrics.stale_retries.Add();
    reused_ = false;
    const Status connected = co_await Connect();
    // Not "no connection": it may have died of this request.
    if (connected.code() == StatusCode::kUnavailable) co_return s;
    EMBER_CO_RETURN_IF_ERROR(connected);
  } else {
    EMBER_CO_RETURN_IF_ERROR(co_await Connect());
  }
  co_return co_await Attempt(head, request);
}

asio::awaitable<Status> HttpExchange::Attempt(const std::string& head,
                                              const UpstreamRequest& request) {
  stale_ = sent_all_ = false;
  const TimePoint begun = std::chrono::steady_clock::now();
  LimitPhase(options_.first_byte_timeout);
  std::array parts = {asio::const_buffer(head.data(), head.size()),
                      asio::const_buffer(request.body.data(), request.body.size())};
  std::span<asio::const_buffer> rest = parts;
  error_code write_error = co_await connection_->wire.WriteFirst(&rest);
  const bool head_only = request.method == "HEAD";
  error_code ec;
  if (!write_error && !rest.empty()) {
    ec = co_await ReadHeadWhileSending(rest, head_only, &write_error);
  } else {
    OnSent(write_error);
    // A reply may stand even where the request broke off: an upstream may refuse a body unread.
    ec = co_await ReadHead(head_only);
  }
  if (ec) {
    const Status why = Why(write_error ? write_error : ec, write_error ? "send to" : "reply of");
    stale_ = why.code() == StatusCode::kUnavailable && !parser_->got_some() &&
             std::chrono::steady_clock::now() - begun < options_.stale_within;
    co_return why;
  }
  TakeHead();
  co_return OkStatus();
}

void HttpExchange::OnSent(error_code ec) {
  sent_at_ = std::chrono::steady_clock::now();
  sent_all_ = !ec;
  if (!ec) LimitPhase(options_.first_byte_timeout);
}

// An upstream may refuse a body that it has not taken, and need not read on then. What it says of
// success before it has the whole is believed when it has it.
asio::awaitable<error_code> HttpExchange::ReadHeadWhileSending(std::span<asio::const_buffer> rest,
                                                               bool head_only,
                                                               error_code* write_error) {
  bool stop = false, ended = false;
  asio::steady_timer at_end(strand_, TimePoint::max());
  const auto send = [&]() -> asio::awaitable<void> {
    error_code failed;
    while (!rest.empty() && !failed && !stop) {
      size_t n = 0;
      failed = co_await connection_->wire.WriteSome(rest, &n);
      DropFront(&rest, n);
    }
    if (stop) co_return;
    *write_error = failed;
    OnSent(failed);
  };
  asio::co_spawn(strand_, send, [&](const std::exception_ptr&) {
    ended = true;
    at_end.cancel();
  });
  const error_code ec = co_await ReadHead(head_only);
  if (!ended && (ec || parser_->get().result_int() >= 300)) {
    stop = true;
    sent_at_ = std::chrono::steady_clock::now();
    error_code ignored;
    connection_->wire.socket().cancel(ignored);
  }
  while (!ended) co_await at_end.async_wait(kAwait);
  co_return ec;
}

asio::awaitable<error_code> HttpExchange::ReadHead(bool head_only) {
  for (int i = 0; i < kMaxInterimReplies; ++i) {
    parser_.emplace();
    parser_->header_limit(kMaxHeadBytes);
    parser_->body_limit(boost::none);
    parser_->skip(head_only);
    parser_->on_chunk_header(CheckReplyChunk);
    error_code ec = co_await ReadMessageHead(*connection_, *parser_);
    if (ec == http::error::bad_status) ec = co_await ParseWithoutReason();
    if (ec == http::error::need_more) ec = co_await ReadMessageHead(*connection_, *parser_);
    if (ec) co_return ec;
    // Another coding would be passed on without its name.
    if (!OnlyChunked(parser_->get())) co_return make_error_code(http::error::bad_transfer_encoding);
    const unsigned status = parser_->get().result_int();
    if (status < 100 || status == 101 || status > 599) break;  // none that can be passed on
    if (status >= 200) co_return error_code();
  }
  co_return make_error_code(http::error::bad_status);
}

// A status line that ends with its code, without the space that belongs before a reason, even an
// empty one (RFC 9112, 4), is read as if it were there. need_more: as far as the head has come.
asio::awaitable<error_code> HttpExchange::ParseWithoutReason() {
  constexpr size_t kLine = 12;  // "HTTP/1.1 200"
  const auto rest = [&] {
    return connection_->unread().substr(std::min(kLine, connection_->unread().size()));
  };
  if (rest() == "\r") (void)co_await connection_->Fill();
  if (!rest().starts_with("\r\n")) co_return make_error_code(http::error::bad_status);
  std::string mended(connection_->unread());
  mended.insert(kLine, " ");
  error_code ec;
  if (const size_t n = parser_->put(asio::buffer(mended), ec)) connection_->Consume(n - 1);
  co_return ec;
}

void HttpExchange::TakeHead() {
  head_at_ = std::chrono::steady_clock::now();
  head_.status = static_cast<int>(parser_->get().result_int());
  head_.headers.Reserve(16);
  for (const auto& f : parser_->get())
    head_.headers.Add(std::string(f.name_string()), std::string(f.value()));
  if (const auto length = parser_->content_length()) content_length_ = *length;
  if (parser_->is_done()) FinishBody();
}

// The connection can serve again when both sides agree that nothing is left on it.
void HttpExchange::FinishBody() {
  complete_ = true;
  watchdog_.Disarm();
  cancel_registration_.Reset();
  const bool reusable = sent_all_ && parser_->keep_alive() && !parser_->need_eof() &&
                        connection_->buffer.size() == 0 && connection_->wire.socket().is_open();
  if (reusable) {
    holds_reservation_ = false;
    store_->Put(origin_, options_.aside, std::move(connection_));
  }
  connection_.reset();
}

asio::awaitable<void> HttpExchange::Rest(TimePoint until) {
  // Asio is woken for each segment, whether anybody reads or not.
  using LowWatermark = asio::socket_base::receive_low_watermark;
  error_code ignored;
  connection_->wire.socket().set_option(LowWatermark(16 << 10), ignored);
  asio::steady_timer timer(strand_, until);
  co_await timer.async_wait(kAwait);
  connection_->wire.socket().set_option(LowWatermark(1), ignored);
}

asio::awaitable<Result<std::string_view>> HttpExchange::ReadBody() {
  if (!failed_.ok()) co_return failed_;
  if (!piece_ && !complete_) piece_ = std::make_unique_for_overwrite<std::array<char, 16 << 10>>();
  while (!complete_) {
    LimitPhase(options_.idle_timeout);
    size_t got = 0;
    const error_code ec =
        co_await ReadMessageBody(*connection_, *parser_, piece_->data(), piece_->size(), &got);
    watchdog_.ExpireAt(deadline_);  // the upstream is not waited for while the caller has the piece
    if (ec) {
      failed_ = Why(ec, "reply of");
      Interrupt();
    } else if (parser_->is_done()) {
      FinishBody();
    }
    if (got > 0) co_return std::string_view(piece_->data(), got);
    if (!failed_.ok()) co_return failed_;
  }
  co_return std::string_view();
}

}  // namespace ember::http
