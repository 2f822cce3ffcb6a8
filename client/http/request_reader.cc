#include "client/http/request_reader.h"

#include <algorithm>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>

#include "client/http/body_shelf.h"
#include "client/http/message_reader.h"

namespace ember::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;
using Failure = RequestReader::Failure;

namespace {

constexpr size_t kHeadRead = 4 << 10;
constexpr size_t kBodyRead = 64 << 10;
constexpr ptrdiff_t kMaxFields = 256;
// How much of a body's memory is touched, and charged to the budget, at first and at a time: who
// sends one byte of many shall not hold as much as who sends many.
constexpr size_t kFirstStep = 40 << 10;
constexpr size_t kBodyStep = 256 << 10;
constexpr size_t kMaxUnprovenReserve = 1 << 20;  // reserved for a declared length before bytes came
constexpr size_t kSlack = 64;                    // behind a body

Failure HeadOver(size_t limit) {
  return {431, "request header fields exceed " + std::to_string(limit) + " bytes"};
}

Failure BodyOver(size_t limit) {
  return {413, "the body is over " + std::to_string(limit) + " bytes"};
}

Failure FailureOf(error_code ec, const RequestReader::Limits& limits) {
  using beast::http::error;
  if (ec == error::header_limit) return HeadOver(limits.header_bytes);
  if (ec == error::body_limit) return BodyOver(limits.body_bytes);
  if (ec == error::bad_version) return {505, "only HTTP/1.0 and HTTP/1.1 are spoken"};
  if (ec == error::end_of_stream || ec == error::partial_message) return {};
  if (ec.category() == make_error_code(error::bad_method).category())
    return {400, "malformed HTTP: " + ec.message()};
  return {};  // a broken or closed socket
}

// What can be a host, and perhaps a port (RFC 9110, 7.2); nothing where the target has none. A
// comma, which no name has in fact, is taken for two hosts joined.
bool IsHost(std::string_view value) {
  const size_t port = value.find(':', value.starts_with('[') ? value.find(']') : 0);
  if (port != value.npos) {
    if (value.find_first_not_of("0123456789", port + 1) != value.npos) return false;
    value = value.substr(0, port);
  }
  return std::all_of(value.begin(), value.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-._~%!$&'()*+;=:[]").find(c) != std::string_view::npos;
  });
}

}  // namespace

struct RequestReader::Impl {
  using Parser = beast::http::request_parser<beast::http::buffer_body>;

  Impl(ClientBytes& b, Limits l, BodyBudget& budget) : bytes(b), limits(l), charge(budget) {}

  std::optional<Failure> CheckHead();
  void CheckChunk(uint64_t size, std::string_view extension, error_code& ec);
  bool Grow(std::string* body, size_t got);
  // A body of declared length comes straight from the wire, past the parser.
  bool direct() const { return parser->content_length().has_value(); }

  // For message_reader.h.
  std::string_view unread() const { return bytes.unread(); }
  void Consume(size_t n) {
    if (in_head) {
      SeeHead(unread().substr(0, n));
      head_bytes += n;
    }
    bytes.Consume(n);
  }
  asio::awaitable<error_code> Fill() { return in_head ? FillHead() : bytes.Fill(kBodyRead); }
  asio::awaitable<error_code> FillHead() {
    if (head_bytes + unread().size() >= limits.header_bytes)
      co_return beast::http::error::header_limit;
    co_return co_await bytes.Fill(kHeadRead);
  }

  // Beast joins folded lines, which others take for two (RFC 9112, 5.2).
  void SeeHead(std::string_view piece) {
    for (size_t at = 0; at < piece.size() && !folded;) {
      folded = line_ended && (piece[at] == ' ' || piece[at] == '\t');
      const size_t end = piece.find('\n', at);
      line_ended = end != piece.npos;
      at = line_ended ? end + 1 : piece.size();
    }
  }

  ClientBytes& bytes;
  const Limits limits;
  std::optional<Parser> parser;
  BodyBudget::Charge charge;
  uint64_t announced = 0;  // by the chunks of the body
  size_t head_bytes = 0;   // Beast's own limit is for what it has not parsed yet
  std::function<void(uint64_t, beast::string_view, error_code&)> on_chunk =
      [this](uint64_t size, beast::string_view extension, error_code& ec) {
        CheckChunk(size, extension, ec);
      };
  bool keep_alive = false;  // the head's word: trailers have none
  bool in_head = false;
  bool line_ended = false;
  bool folded = false;
};

RequestReader::RequestReader(ClientBytes& bytes, Limits limits, BodyBudget& budget)
    : impl_(std::make_unique<Impl>(bytes, limits, budget)) {}
RequestReader::~RequestReader() = default;

// A chunk is refused by what it announces.
void RequestReader::Impl::CheckChunk(uint64_t size, std::string_view extension, error_code& ec) {
  if (size > limits.body_bytes - announced) ec = beast::http::error::body_limit;
  if (!ec) announced += size;
  if (!IsChunkExtension(extension)) ec = beast::http::error::bad_chunk_extension;
}

// What Beast lets pass but would leave two readers of one message with different ideas of its end.
std::optional<Failure> RequestReader::Impl::CheckHead() {
  using beast::http::field;
  const auto& head = parser->get();
  if (folded) return Failure{400, "a header field is folded over two lines"};
  if (head.version() != 10 && head.version() != 11)
    return Failure{505, "only HTTP/1.0 and HTTP/1.1 are spoken"};
  if (head_bytes > limits.header_bytes) return HeadOver(limits.header_bytes);
  const size_t hosts = head.count(field::host);
  if (hosts > 1 || (hosts == 0 && head.version() == 11))
    return Failure{400, "want exactly one Host header"};
  if (!IsHost(head[field::host])) return Failure{400, "the Host header names no host"};
  if (std::distance(head.begin(), head.end()) > kMaxFields) {
    return Failure{431, "more than " + std::to_string(kMaxFields) + " header fields"};
  }
  if (const size_t codings = head.count(field::transfer_encoding); codings != 0) {
    if (head.version() == 10) return Failure{400, "HTTP/1.0 has no transfer coding"};
    if (codings != 1 || !beast::iequals(head[field::transfer_encoding], "chunked")) {
      return Failure{501, "the only transfer coding is chunked"};
    }
  }
  if (head.count(field::content_length) > 1 || head[field::content_length].contains(',')) {
    return Failure{400, "more than one Content-Length"};
  }
  if (const auto length = parser->content_length(); length && *length > limits.body_bytes) {
    return BodyOver(limits.body_bytes);
  }
  const size_t expects = head.count(field::expect);
  if (expects > 1 || (expects == 1 && !beast::iequals(head[field::expect], "100-continue"))) {
    return Failure{417, "unknown expectation"};
  }
  return std::nullopt;
}

asio::awaitable<std::optional<Failure>> RequestReader::ReadHead(Request* out) {
  Impl& d = *impl_;
  d.parser.emplace();
  d.parser->header_limit(static_cast<uint32_t>(d.limits.header_bytes));
  d.parser->body_limit(boost::none);
  d.parser->on_chunk_header(d.on_chunk);
  d.announced = d.head_bytes = 0;
  d.in_head = true;
  d.line_ended = d.folded = false;
  const error_code ec = co_await ReadMessageHead(d, *d.parser);
  d.in_head = false;
  const auto& head = d.parser->get();
  out->method = std::string(head.method_string());
  out->SetTarget(head.target());
  out->headers.Reserve(16);
  for (const auto& f : head) out->headers.Add(std::string(f.name_string()), std::string(f.value()));
  out->received_at = std::chrono::steady_clock::now();
  if (ec) co_return FailureOf(ec, d.limits);
  if (auto failure = d.CheckHead()) co_return failure;
  // It counts more than the field (RFC 9112, 3.2.2).
  if (const std::optional<std::string_view> host = HostOfTarget(head.target())) {
    if (host->empty() || !IsHost(*host)) co_return Failure{400, "the target names no host"};
    out->headers.Set("Host", std::string(*host));
  }
  d.keep_alive = head.keep_alive();
  co_return std::nullopt;
}

bool RequestReader::http10() const { return impl_->parser->get().version() == 10; }
bool RequestReader::keep_alive() const { return impl_->keep_alive; }
bool RequestReader::has_body() const { return !impl_->parser->is_done(); }
bool RequestReader::awaits_continue() const {
  return has_body() && !http10() && impl_->bytes.unread().empty() &&
         impl_->parser->get().count(beast::http::field::expect) != 0;
}

// Makes room behind `got` bytes. Memory follows the bytes that came, not the length that was
// declared.
bool RequestReader::Impl::Grow(std::string* body, size_t got) {
  const size_t declared = parser->content_length().value_or(0);
  const size_t most = declared != 0 ? declared : limits.body_bytes + 1;
  if (got + kSlack >= body->capacity()) {
    size_t want = std::max(2 * got, kHeadRead);
    if (declared != 0) want = got < kMaxUnprovenReserve ? kMaxUnprovenReserve : declared;
    want = std::min(std::max(want, got + 1), most) + kSlack;
    if (got == 0) {
      *body = BodyShelf::OfThread().Take(want);
    } else {
      body->reserve(want);
    }
  }
  const size_t step = std::clamp(2 * got, kFirstStep, kBodyStep);
  const size_t size = std::min({got + step, body->capacity() - kSlack, most});
  if (!charge.GrowTo(size + kSlack)) return false;
  body->resize(size);
  return true;
}

asio::awaitable<std::optional<Failure>> RequestReader::ReadBody(
    std::string* body, std::function<void(size_t)> on_progress) {
  Impl& d = *impl_;
  const size_t declared = d.parser->content_length().value_or(0);
  size_t got = 0;
  while (d.direct() ? got < declared : !d.parser->is_done()) {
    if (got == body->size() && !d.Grow(body, got))
      co_return Failure{503, "too many bodies are being received"};
    size_t piece = 0;
    error_code ec;
    if (d.direct()) {
      ec = co_await d.bytes.ReadInto(asio::buffer(body->data() + got, body->size() - got), &piece);
    } else {
      ec = co_await ReadMessageBody(d, *d.parser, body->data() + got, body->size() - got, &piece);
    }
    got += piece;
    if (ec) co_return FailureOf(ec, d.limits);
    on_progress(piece);
  }
  body->resize(got);
  co_return std::nullopt;
}

void RequestReader::EndRequest(std::string body) {
  impl_->parser.reset();
  impl_->charge.Clear();
  BodyShelf::OfThread().Put(std::move(body));
}

}  // namespace ember::http
