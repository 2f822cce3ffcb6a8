#include "client/http/reply_writer.h"

#include <array>
#include <boost/asio/buffer.hpp>
#include <charconv>
#include <ctime>

#include "client/http/server_connection.h"

namespace ember::http {

namespace asio = boost::asio;

namespace {

// IMF-fixdate (RFC 9110, 5.6.7), whatever the locale is.
std::string FormatDate(std::time_t time) {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm t{};
  gmtime_r(&time, &t);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT", kDays[t.tm_wday],
                t.tm_mday, kMonths[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
  return text.data();
}

const std::string& HttpDate() {
  thread_local std::time_t of = 0;
  thread_local std::string text;
  if (const std::time_t now = std::time(nullptr); now != of) {
    of = now;
    text = FormatDate(now);
  }
  return text;
}

// The size line of a chunk.
struct ChunkHead {
  explicit ChunkHead(size_t size) {
    char* end = std::to_chars(text.data(), text.data() + text.size() - 2, size, 16).ptr;
    *end++ = '\r';
    *end++ = '\n';
    length = static_cast<size_t>(end - text.data());
  }
  asio::const_buffer buffer() const { return {text.data(), length}; }
  std::array<char, 20> text;
  size_t length;
};

constexpr std::string_view kStatusLine = "HTTP/1.1 ";  // how it begins, whatever the status
constexpr std::string_view kCrlf = "\r\n";
constexpr std::string_view kLastChunk = "0\r\n\r\n";

asio::const_buffer BufferOf(std::string_view s) { return {s.data(), s.size()}; }

}  // namespace

Cancellation& ReplyWriter::gone() { return connection_.gone(); }
bool ReplyWriter::stopping() const { return connection_.cut(); }

Status ReplyWriter::Refuse(const char* why) {
  Abort();
  return InternalError(why);
}

std::string ReplyWriter::Head(ResponseHead head, std::optional<uint64_t> content_length) {
  const int status = head.status;
  connection_.responses(status).Add();
  const bool no_body = client_.head_only || status == 204 || status == 304;
  if (no_body) {
    framing_ = Framing::kNoBody;
  } else if (content_length) {
    framing_ = Framing::kLength;
    left_ = *content_length;
  } else {
    framing_ = client_.http10 ? Framing::kUntilClose : Framing::kChunked;
  }
  if (framing_ == Framing::kUntilClose || connection_.ends_after_reply())
    client_.keep_alive = false;

  for (const auto& field : reply_fields()) {
    if (field.value.empty()) {
      head.headers.Remove(field.name);
    } else {
      head.headers.Set(field.name, field.value);
    }
  }
  head.headers.RemoveHopByHop();
  head.headers.Remove("Content-Length");
  const bool empty_304 =
      status == 304 && content_length == 0;  // 304 names the length of what was not sent
  if (content_length && status != 204 && !empty_304)
    head.headers.Add("Content-Length", std::to_string(*content_length));
  if (framing_ == Framing::kChunked) head.headers.Add("Transfer-Encoding", "chunked");
  if (!client_.keep_alive) {
    head.headers.Add("Connection", "close");
  } else if (client_.http10) {
    head.headers.Add("Connection", "keep-alive");
  }
  if (!head.headers.Has("Date")) head.headers.Add("Date", HttpDate());

  std::string out(kStatusLine.substr(status_line_begun_ ? 1 : 0));
  out.append(std::to_string(status)).append(" ");
  out.append(ReasonPhrase(status)).append(kCrlf);
  head.headers.AppendTo(&out);
  out.append(kCrlf);
  return out;
}

asio::awaitable<Status> ReplyWriter::Send(ResponseHead head, std::string_view body) {
  EMBER_CO_RETURN_IF_ERROR(co_await Begin(std::move(head), body.size(), body));
  co_return co_await End();
}

asio::awaitable<Status> ReplyWriter::Begin(ResponseHead head,
                                           std::optional<uint64_t> content_length,
                                           std::string_view first) {
  if (state_ != State::kNew) co_return Refuse("Begin after the reply had begun");
  if (connection_.client_left()) co_return CancelledError("the client is gone");
  if (head.status < 200 || head.status > 599) co_return InternalError("not a final status");
  const std::string text = Head(std::move(head), content_length);
  state_ = State::kStreaming;
  if (framing_ == Framing::kNoBody) first = {};
  if (framing_ == Framing::kLength) {
    if (first.size() > left_) co_return Refuse("more body than its declared length");
    left_ -= first.size();
  }
  const bool chunk = framing_ == Framing::kChunked && !first.empty();
  const ChunkHead size(first.size());
  std::array parts = {BufferOf(text), chunk ? size.buffer() : asio::const_buffer(), BufferOf(first),
                      BufferOf(chunk ? kCrlf : "")};
  co_return co_await connection_.WriteAll(parts);
}

asio::awaitable<Status> ReplyWriter::Write(std::string_view chunk) {
  if (state_ != State::kStreaming) co_return Refuse("Write outside a streamed reply");
  if (connection_.client_left()) co_return CancelledError("the client is gone");
  if (chunk.empty() || framing_ == Framing::kNoBody) co_return OkStatus();
  if (framing_ == Framing::kChunked) {
    const ChunkHead size(chunk.size());
    std::array parts = {size.buffer(), BufferOf(chunk), BufferOf(kCrlf)};
    co_return co_await connection_.WriteAll(parts);
  }
  if (framing_ == Framing::kLength) {
    if (chunk.size() > left_) co_return Refuse("more body than its declared length");
    left_ -= chunk.size();
  }
  std::array parts = {BufferOf(chunk)};
  co_return co_await connection_.WriteAll(parts);
}

asio::awaitable<Status> ReplyWriter::End() {
  if (state_ != State::kStreaming) co_return Refuse("End outside a streamed reply");
  if (connection_.client_left()) co_return CancelledError("the client is gone");
  if (framing_ == Framing::kLength && left_ != 0)
    co_return Refuse("less body than its declared length");
  if (framing_ == Framing::kChunked) {
    std::array parts = {BufferOf(kLastChunk)};
    EMBER_CO_RETURN_IF_ERROR(co_await connection_.WriteAll(parts));
  }
  state_ = State::kEnded;
  co_return OkStatus();
}

void ReplyWriter::Abort() {
  state_ = State::kAborted;
  client_.keep_alive = false;
}

std::string_view ReplyWriter::ProbeByte() const {
  if (state_ == State::kNew && !status_line_begun_) return kStatusLine.substr(0, 1);
  if (state_ == State::kStreaming && framing_ == Framing::kChunked) return "0";
  return "";
}

}  // namespace ember::http
