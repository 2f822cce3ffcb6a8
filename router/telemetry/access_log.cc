#include "router/telemetry/access_log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "client/http/json_object.h"

namespace ember::router {
namespace {

// What a pipe takes whole as soon as it is writable, so that a write never blocks.
constexpr size_t kPiece = 4096;
constexpr int kPollMs = 100;
constexpr int kClosingPolls = 10;
constexpr Duration kTellEach = seconds(60);

int OpenForAppending(const std::string& path) {
  if (path == "-") return STDOUT_FILENO;
  // Non-blocking: to open a pipe that nobody reads is an error, not a hang.
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0640);
}

std::string TimeText(int64_t unix_ns) {
  const int64_t ms = unix_ns / 1'000'000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(static_cast<time_t>(ms / 1000)),
                     ms % 1000);
}

}  // namespace

std::string AccessLogLine(const RequestRecord& r) {
  http::JsonObject out;
  out.Add("time", TimeText(r.received_unix_ns))
      .Add("id", r.request_id)
      .Add("method", r.method)
      .Add("path", r.path)
      .Add("status", static_cast<uint64_t>(r.status))
      .Add("outcome", r.outcome)
      .Add("request_bytes", r.request_bytes)
      .Add("reply_bytes", r.reply_bytes)
      .Add("stream", r.stream)
      .Add("model", r.model)
      .Add("policy", r.policy)
      .Add("replica", r.replica());
  if (const AttemptRecord* served = r.served(); served != nullptr && served->decision.rank) {
    out.Add("rank", *served->decision.rank);
  }
  out.Add("route", r.route)
      .Add("tries", r.attempts.size())
      .Add("predicted_tokens", r.predicted_tokens);
  const uint64_t prompt = r.engine_prompt_tokens != 0 ? r.engine_prompt_tokens : r.prompt_tokens;
  if (prompt != 0) out.Add("prompt_tokens", prompt);
  if (r.counted) {
    out.Add("cached_tokens", r.cached_tokens).Add("computed_tokens", r.computed_tokens);
  }
  if (r.queued > Duration(0)) out.Add("queued_ms", ToMilliseconds(r.queued));
  if (r.predicted_ttft_ms > 0) out.Add("predicted_ttft_ms", r.predicted_ttft_ms);
  if (r.stream) out.Add("ttft_ms", r.ttft_ms());
  out.Add("duration_ms", ToMilliseconds(r.ended_at - r.received_at));
  if (!r.tenant.empty()) out.Add("tenant", r.tenant);
  if (r.trace.sampled) out.Add("trace", r.trace.trace.ToString());
  return out.ToString() + "\n";
}

Result<std::unique_ptr<AccessLog>> AccessLog::Open(std::string path, MetricsRegistry& registry,
                                                   RecordWorkerOptions options) {
  const int fd = OpenForAppending(path);
  if (fd < 0) return UnavailableError("open " + path + ": " + std::strerror(errno));
  return std::unique_ptr<AccessLog>(new AccessLog(std::move(path), fd, registry, options));
}

AccessLog::AccessLog(std::string path, int fd, MetricsRegistry& registry,
                     RecordWorkerOptions options)
    : path_(std::move(path)),
      fd_(fd),
      lost_(registry.AddCounter("ember_router_access_log_lost_total",
                                "Lines that the access log could not take")),
      worker_(std::make_unique<RecordWorker>(options, lost_,
                                             [this](const auto& batch) { Write(batch); })) {}

AccessLog::~AccessLog() {
  closing_.store(true);
  worker_.reset();
  TellOfLosses();
  if (fd_ != STDOUT_FILENO) ::close(fd_);
}

void AccessLog::Write(const std::vector<FinishedRequest>& batch) {
  if (reopen_.exchange(false) && fd_ != STDOUT_FILENO) {
    if (const int fresh = OpenForAppending(path_); fresh >= 0) {
      ::close(fd_);
      fd_ = fresh;
    } else {
      spdlog::error("access log: open {}: {}; the old file is kept", path_, std::strerror(errno));
    }
  }
  std::string text;
  size_t lines = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    text += AccessLogLine(*batch[i]);
    ++lines;
    if (text.size() < kPiece / 2 && i + 1 < batch.size()) continue;
    if (!WriteAll(text)) lost_.Add(lines);
    text.clear();
    lines = 0;
  }
  TellOfLosses();
}

bool AccessLog::WriteAll(std::string_view text) {
  while (!text.empty()) {
    if (!WaitUntilWritable()) return false;
    const ssize_t n = ::write(fd_, text.data(), std::min(text.size(), kPiece));
    if (n < 0 && errno != EINTR && errno != EAGAIN) {
      why_lost_ = std::strerror(errno);
      return false;
    }
    if (n > 0) text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// False when the process is to end and a reader of our pipe takes nothing.
bool AccessLog::WaitUntilWritable() {
  for (int closing_polls = 0; !stuck_ && closing_polls < kClosingPolls;) {
    pollfd poll{.fd = fd_, .events = POLLOUT, .revents = 0};
    if (::poll(&poll, 1, kPollMs) > 0) return true;
    why_lost_ = "nobody reads it";
    TellOfLosses();
    if (closing_.load()) ++closing_polls;
  }
  stuck_ = true;
  return false;
}

void AccessLog::TellOfLosses() {
  const uint64_t lost = lost_.value() - lost_told_;
  const TimePoint now = SteadyClock().Now();
  if (lost == 0 || (told_at_ && now < *told_at_ + kTellEach && !closing_.load())) return;
  spdlog::error("access log: lost lines: {} ({})", lost,
                why_lost_.empty() ? "more came than it could take" : why_lost_);
  lost_told_ += lost;
  told_at_ = now;
  why_lost_.clear();
}

}  // namespace ember::router
