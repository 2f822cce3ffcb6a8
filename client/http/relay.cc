#include "client/http/relay.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "client/http/await.h"
#include "client/http/burst_pacer.h"

namespace ember::http {

namespace asio = boost::asio;

namespace {

// Relayed in one go before others on the loop have their turn: where neither side ever blocks,
// nothing else would run.
constexpr uint64_t kTurnBytes = 256 << 10;

TimePoint Now() { return std::chrono::steady_clock::now(); }

bool IsEventStream(const Headers& headers) {
  std::string_view type = headers.Get("Content-Type");
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  const std::string_view coding = headers.Get("Content-Encoding");
  return EqualNoCase(type, "text/event-stream") &&
         (coding.empty() || EqualNoCase(coding, "identity"));
}

UpstreamRequest ForwardedRequest(const Request& request, const RelayOptions& options) {
  UpstreamRequest out;
  out.method = request.method;
  out.target = options.target.empty() ? request.target : options.target;
  out.host = options.host;
  out.body = options.body.value_or(std::string_view(request.body));
  out.headers = request.headers;
  out.headers.RemoveHopByHop();
  for (const char* name : {"Host", "Content-Length", "Expect"}) out.headers.Remove(name);
  if (request.headers.Has("Host") && !out.headers.Has("X-Forwarded-Host")) {
    out.headers.Add("X-Forwarded-Host", std::string(request.headers.Get("Host")));
  }
  for (const std::string& name : options.drop_request_headers) out.headers.Remove(name);
  for (const auto& field : options.set_request_headers) out.headers.Set(field.name, field.value);
  return out;
}

// Where a stream broke off.
class StreamTail {
 public:
  void Feed(std::string_view piece) {
    last_.append(piece.substr(piece.size() - std::min(piece.size(), kKept)));
    if (last_.size() > kKept) last_.erase(0, last_.size() - kKept);
  }
  // What ends the event it broke off in, so that ours is read as a new one.
  std::string_view Repair() const {
    const std::string_view s = last_;
    if (s.empty() || s.ends_with("\n\n") || s.ends_with("\r\r") || s.ends_with("\n\r\n")) return "";
    return s.ends_with('\n') ? "\n" : "\n\n";
  }
  // All was said: what follows the last event means nothing.
  bool IsDone() const {
    std::string_view line = last_;
    while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
    return line.ends_with("\ndata: [DONE]") || line.ends_with("\ndata:[DONE]");
  }
  // It ended within an event.
  bool IsCut() const { return !Repair().empty(); }

 private:
  static constexpr size_t kKept = 24;
  std::string last_;
};

// The steps of one Relay; lives in its frame.
class Relaying {
 public:
  Relaying(UpstreamPool& pool, const Request& request, ResponseWriter& writer,
           RelayOptions& options)
      : pool_(pool), request_(request), writer_(writer), options_(options) {}

  asio::awaitable<void> Run(Origin origin);
  RelayOutcome& outcome() { return outcome_; }

 private:
  asio::awaitable<void> Reply();
  asio::awaitable<void> Pace(size_t piece_bytes);
  asio::awaitable<void> Finish();
  asio::awaitable<void> Fail(Status why);
  void Conclude(RelayEnd end, Status why);
  bool SaidAll() const { return tail_.IsDone() || (options_.said_all && options_.said_all()); }
  bool SeePiece(const Result<std::string_view>& piece);
  // Without the upstream's address, and what may name others.
  Status ForClient(const Status& why) const;

  UpstreamPool& pool_;
  const Request& request_;
  ResponseWriter& writer_;
  RelayOptions& options_;
  std::string address_;
  Cancellation stop_;  // client gone or upstream given up; outlives the exchange
  Cancellation::Registration gone_, abandoned_;
  std::unique_ptr<Exchange> exchange_;
  StreamTail tail_;
  BurstPacer pacer_;
  RelayOutcome outcome_;
};

void Relaying::Conclude(RelayEnd end, Status why) {
  exchange_.reset();
  outcome_.stopped = writer_.stopping() && end != RelayEnd::kDone;
  outcome_.end = writer_.gone().cancelled() && !writer_.stopping() ? RelayEnd::kClientGone : end;
  outcome_.told = ForClient(why);
  outcome_.error = std::move(why);
  outcome_.ended_at = Now();
}

Status Relaying::ForClient(const Status& why) const {
  const std::string_view message = why.message();
  const size_t at = message.find(address_);
  if (options_.upstream_name.empty() || at == message.npos) return why;
  std::string told = std::string(message.substr(0, at)) + options_.upstream_name;
  return {why.code(), told + (why.code() == StatusCode::kDeadline ? ": time-out" : ": failed")};
}

asio::awaitable<void> Relaying::Run(Origin origin) {
  outcome_.started_at = Now();
  address_ = origin.ToString();
  options_.exchange.cancellation = &writer_.gone();
  if (options_.abandon != nullptr) {
    options_.exchange.cancellation = &stop_;
    gone_ = writer_.gone().OnCancel([this] { stop_.Cancel(); });
    abandoned_ = options_.abandon->OnCancel([this] {
      if (!outcome_.reply_started) stop_.Cancel();
    });
  }
  auto sent = co_await pool_.Send(std::move(origin), ForwardedRequest(request_, options_),
                                  options_.exchange);
  if (!sent.ok()) co_return Conclude(RelayEnd::kFailedBefore, sent.status());
  exchange_ = std::move(*sent);
  outcome_.status = exchange_->head().status;
  outcome_.reused_connection = exchange_->reused();
  outcome_.sent_at = exchange_->sent_at();
  outcome_.head_at = exchange_->head_at();
  co_await Reply();
}

// Counts a piece of the body and shows it to the observer. False: there is none, or an error.
bool Relaying::SeePiece(const Result<std::string_view>& piece) {
  if (!piece.ok() || piece->empty()) return false;
  if (outcome_.body_bytes == 0) outcome_.first_byte_at = Now();
  outcome_.body_bytes += piece->size();
  if (outcome_.event_stream) tail_.Feed(*piece);
  if (options_.on_body) options_.on_body(*piece);
  return true;
}

// Lets more of a burst of events come before the next read.
asio::awaitable<void> Relaying::Pace(size_t piece_bytes) {
  const TimePoint now = Now(), next = pacer_.NextRead(now, piece_bytes);
  if (next > now) co_await exchange_->Rest(next);
}

asio::awaitable<void> Relaying::Reply() {
  ResponseHead head = exchange_->head();
  head.headers.RemoveHopByHop();
  head.headers.Remove("Content-Length");
  const std::optional<uint64_t> length = exchange_->content_length();
  outcome_.event_stream = IsEventStream(head.headers) && !length;
  if (options_.accept && !options_.accept(head)) {
    co_return Conclude(RelayEnd::kRejected,
                       UnavailableError("upstream said " + std::to_string(outcome_.status)));
  }
  auto piece = co_await exchange_->ReadBody();
  SeePiece(piece);
  if (!piece.ok()) co_return Conclude(RelayEnd::kFailedBefore, piece.status());
  if (options_.before_head) options_.before_head(head, outcome_);
  outcome_.reply_started = true;
  Status written = co_await writer_.Begin(std::move(head), length, *piece);
  for (uint64_t turn = kTurnBytes; written.ok() && !piece->empty();) {
    if (outcome_.body_bytes >= turn) {
      co_await asio::post(kAwait);
      turn = outcome_.body_bytes + kTurnBytes;
    }
    if (outcome_.event_stream && !exchange_->body_over()) co_await Pace(piece->size());
    piece = co_await exchange_->ReadBody();
    SeePiece(piece);
    if (!piece.ok() && outcome_.event_stream && SaidAll()) break;
    if (!piece.ok()) co_return co_await Fail(piece.status());
    written = co_await writer_.Write(*piece);
  }
  if (!written.ok()) co_return Conclude(RelayEnd::kClientGone, written);
  if (outcome_.event_stream && exchange_->ends_with_connection() && tail_.IsCut() && !SaidAll()) {
    co_return co_await Fail(UnavailableError("the reply ended within an event"));
  }
  co_await Finish();
}

asio::awaitable<void> Relaying::Finish() {
  exchange_.reset();
  outcome_.ended_at = Now();
  if (options_.before_end) co_await options_.before_end(outcome_);
  const Status ended = co_await writer_.End();
  Conclude(ended.ok() ? RelayEnd::kDone : RelayEnd::kClientGone, ended);
}

// The upstream broke off in the middle of its reply.
asio::awaitable<void> Relaying::Fail(Status why) {
  Conclude(RelayEnd::kFailedMidway, why);
  if (outcome_.end == RelayEnd::kClientGone) co_return;
  if (!outcome_.event_stream) {
    writer_.Abort();
    co_return;
  }
  OpenAiError error = OpenAiError::FromStatus(outcome_.told);
  error.code = "upstream_failed";
  if (outcome_.stopped) error = OpenAiError::OfShutdown();
  Status told =
      co_await writer_.Write(std::string(tail_.Repair()) + error.Events(writer_.error_shape()));
  if (told.ok()) told = co_await writer_.End();
  if (!told.ok()) outcome_.end = RelayEnd::kClientGone;
}

}  // namespace

asio::awaitable<RelayOutcome> Relay(UpstreamPool& pool, Origin origin, const Request& request,
                                    ResponseWriter& writer, RelayOptions options) {
  Relaying relaying(pool, request, writer, options);
  co_await relaying.Run(std::move(origin));
  co_return std::move(relaying.outcome());
}

}  // namespace ember::http
