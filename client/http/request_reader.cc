#include "client/http/request_reader.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "client/http/body_piece.h"

namespace ember::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;
using Failure = RequestReader::Failure;

namespace {

constexpr size_t kFirstRead = 4 << 10;
constexpr size_t kBigRead = 64 << 10;
constexpr ptrdiff_t kMaxFields = 256;
constexpr size_t kMaxReadAhead = 16 << 10;
constexpr size_t kBodyStep = 256 << 10;  // how much of the body's memory is touched at a time
constexpr size_t kMaxUnprovenReserve = 1 << 20;  // reserved for a declared length before bytes came

Failure FailureOf(error_code ec, size_t header_limit) {
  using beast::http::error;
  if (ec == error::header_limit || ec == error::buffer_overflow) {
    return {431, "request header fields exceed " + std::to_string(header_limit) + " bytes"};
  }
  if (ec == error::bad_version) return {505, "only HTTP/1.0 and HTTP/1.1 are spoken"};
  if (ec == error::end_of_stream || ec == error::partial_message) return {};
  if (ec.category() == make_error_code(error::bad_method).category())
    return {400, "malformed HTTP: " + ec.message()};
  return {};  // a broken or closed socket
}

}  // namespace

struct RequestReader::Impl {
  using Parser = beast::http::request_parser<beast::http::buffer_body>;

  Impl(asio::ip::tcp::socket& s, Limits l, BodyBudget& budget)
      : socket(s), limits(l), buffer(l.header_bytes + 2 * kBigRead), charge(budget) {
    buffer.reserve(kFirstRead);
  }

  std::optional<Failure> CheckHead();
  bool Grow(std::string* body, size_t got);
  // Empty lines before a request are legal leftovers of the one before (RFC 9112, 2.2).
  void SkipEmptyLines() {
    const auto front = [this] {
      return std::string_view(static_cast<const char*>(buffer.data().data()), buffer.size());
    };
    while (front().starts_with("\r\n")) buffer.consume(2);
  }

  asio::ip::tcp::socket& socket;
  const Limits limits;
  beast::flat_buffer buffer;
  std::optional<Parser> parser;
  BodyBudget::Charge charge;
};

RequestReader::RequestReader(asio::ip::tcp::socket& socket, Limits limits, BodyBudget& budget)
    : impl_(std::make_unique<Impl>(socket, limits, budget)) {}
RequestReader::~RequestReader() = default;

// What Beast lets pass but would leave two readers of one message with different ideas of its end.
std::optional<Failure> RequestReader::Impl::CheckHead() {
  using beast::http::field;
  const auto& head = parser->get();
  if (head.version() != 10 && head.version() != 11)
    return Failure{505, "only HTTP/1.0 and HTTP/1.1 are spoken"};
  if (head.version() == 11 && head.count(field::host) != 1)
    return Failure{400, "want exactly one Host header"};
  if (std::distance(head.begin(), head.end()) > kMaxFields) {
    return Failure{431, "more than " + std::to_string(kMaxFields) + " header fields"};
  }
  if (const size_t codings = head.count(field::transfer_encoding); codings != 0) {
    if (head.version() == 10) return Failure{400, "HTTP/1.0 has no transfer coding"};
    if (codings != 1 || !beast::iequals(head[field::transfer_encoding], "chunked")) {
      return Failure{501, "the only transfer coding is chunked"};
    }
  }
  if (const auto length = parser->content_length(); length && *length > limits.body_bytes) {
    return Failure{413, "the body is over " + std::to_string(limits.body_bytes) + " bytes"};
  }
  if (head.count(field::expect) != 0 && !beast::iequals(head[field::expect], "100-continue")) {
    return Failure{417, "unknown expectation"};
  }
  return std::nullopt;
}

asio::awaitable<std::optional<Failure>> RequestReader::ReadHead(Request* out) {
  Impl& d = *impl_;
  d.parser.emplace();
  d.parser->header_limit(static_cast<uint32_t>(d.limits.header_bytes));
  d.parser->body_limit(boost::none);
  d.SkipEmptyLines();
  const auto [ec, n] =
      co_await beast::http::async_read_header(d.socket, d.buffer, *d.parser, kAwait);
  if (ec) co_return FailureOf(ec, d.limits.header_bytes);
  if (auto failure = d.CheckHead()) co_return failure;
  const auto& head = d.parser->get();
  out->method = std::string(head.method_string());
  out->SetTarget(std::string(head.target()));
  for (const auto& f : head) out->headers.Add(std::string(f.name_string()), std::string(f.value()));
  out->received_at = std::chrono::steady_clock::now();
  co_return std::nullopt;
}

bool RequestReader::http10() const { return impl_->parser->get().version() == 10; }
bool RequestReader::keep_alive() const { return impl_->parser->get().keep_alive(); }
bool RequestReader::has_body() const { return !impl_->parser->is_done(); }
bool RequestReader::awaits_continue() const {
  return has_body() && !http10() && impl_->buffer.size() == 0 &&
         impl_->parser->get().count(beast::http::field::expect) != 0;
}

// Makes room behind `got` bytes. Memory follows the bytes that came, not the length that was
// declared.
bool RequestReader::Impl::Grow(std::string* body, size_t got) {
  const size_t declared = parser->content_length().value_or(0);
  if (got == body->capacity() || body->empty()) {
    size_t want = std::max(2 * got, kFirstRead);
    if (declared != 0)
      want = got < kMaxUnprovenReserve ? std::min(declared, kMaxUnprovenReserve) : declared;
    want = std::min(std::max(want, got + 1), limits.body_bytes + 1);
    if (!charge.GrowTo(want)) return false;
    body->reserve(want);
  }
  body->resize(std::min({got + kBodyStep, body->capacity(), limits.body_bytes + 1}));
  return true;
}

asio::awaitable<std::optional<Failure>> RequestReader::ReadBody(std::string* body,
                                                                std::function<void()> on_progress) {
  Impl& d = *impl_;
  const auto declared = d.parser->content_length();
  const size_t read_size = declared && *declared <= kBigRead ? kFirstRead : kBigRead;
  size_t got = 0;
  while (!d.parser->is_done()) {
    if (got == body->size() && !d.Grow(body, got))
      co_return Failure{503, "too many bodies are being received"};
    size_t piece = 0;
    const error_code ec = co_await ReadBodyPiece(d.socket, d.buffer, *d.parser, read_size,
                                                 body->data() + got, body->size() - got, &piece);
    got += piece;
    if (got > d.limits.body_bytes) {
      co_return Failure{413, "the body is over " + std::to_string(d.limits.body_bytes) + " bytes"};
    }
    if (ec) co_return FailureOf(ec, d.limits.header_bytes);
    on_progress();
  }
  body->resize(got);
  co_return std::nullopt;
}

void RequestReader::EndRequest() {
  impl_->parser.reset();
  impl_->charge.Clear();
  if (impl_->buffer.size() == 0 && impl_->buffer.capacity() > kMaxReadAhead) {
    impl_->buffer.shrink_to_fit();
    impl_->buffer.reserve(kFirstRead);
  }
}

bool RequestReader::HasBufferedBytes() const { return impl_->buffer.size() != 0; }

RequestReader::Pull RequestReader::PullAvailable() {
  Impl& d = *impl_;
  if (d.buffer.size() >= kMaxReadAhead) return Pull::kFull;
  error_code ec;
  const size_t n = d.socket.receive(d.buffer.prepare(kFirstRead), 0, ec);
  if (!ec) {
    d.buffer.commit(n);
    return Pull::kData;
  }
  if (ec == asio::error::would_block || ec == asio::error::try_again) return Pull::kNothingYet;
  return ec == asio::error::eof ? Pull::kEnd : Pull::kBroken;
}

}  // namespace ember::http
