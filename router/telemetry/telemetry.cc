#include "router/telemetry/telemetry.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "router/telemetry/tenant_digest.h"

namespace ember::router {
namespace {

// Of a path: what may stand in a line or a span.
constexpr size_t kMaxPath = 200;
constexpr size_t kMaxMethod = 20;

int64_t UnixNow() {
  return std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Something that can stand in a header, a log line and a JSON string as it is.
bool IsFitId(std::string_view id) {
  return !id.empty() && id.size() <= 64 && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

// Tells routers of one host apart, and the runs of one.
std::string InstanceName() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return std::string(host) + ":" + std::to_string(getpid());
}

}  // namespace

Status Telemetry::Open(const TelemetryOptions& options, http::HttpLoop& loop,
                       http::UpstreamPool& pool) {
  if (!options.access_log.empty()) {
    auto log = AccessLog::Open(options.access_log, metrics_.registry);
    if (!log.ok()) return log.status();
    access_log_ = *std::move(log);
  }
  if (options.otlp) {
    otlp_ = std::make_unique<OtlpExporter>(
        *options.otlp, OtlpResource{EMBER_VERSION, InstanceName()}, loop, pool, metrics_.registry);
  }
  return OkStatus();
}

void Telemetry::Close() {
  access_log_.reset();
  otlp_.reset();
}

void Telemetry::ReopenLog() {
  if (access_log_ != nullptr) access_log_->Reopen();
}

void Telemetry::Begin(const http::Request& request, RequestRecord* record) const {
  for (const char* name : {"x-request-id", "x-ember-request-id"}) {
    const std::string_view id = request.headers.Get(name);
    if (IsFitId(id)) record->request_id = id;
  }
  if (record->request_id.empty()) {
    record->request_id = fmt::format("{:016x}{:016x}", random_.Next(), random_.Next());
  }
  record->method = request.method.substr(0, kMaxMethod);
  record->path = request.path.substr(0, kMaxPath);
  record->received_at = request.received_at;
  record->request_bytes = request.body.size();
  if (access_log_ != nullptr) record->tenant = TenantDigest(request.headers);
}

void Telemetry::NameReply(const RequestRecord& record, http::Headers* headers) {
  headers->Set("x-ember-request-id", record.request_id);
  if (!headers->Has("x-request-id")) headers->Add("x-request-id", record.request_id);
}

void Telemetry::BeginTrace(const http::Request& request, RequestRecord* record) const {
  if (otlp_ == nullptr) return;
  record->trace = TraceContext::Begin(request.headers.Get("traceparent"), otlp_->sample(), random_);
}

void Telemetry::Finish(RequestRecord record) {
  record.sequence = ++finished_;
  record.ended_at = SteadyClock().Now();
  record.received_unix_ns = UnixNow() - (record.ended_at - record.received_at).count();
  metrics_.Count(record);
  const auto finished = std::make_shared<const RequestRecord>(std::move(record));
  // What was refused before it was looked at would only push decisions out.
  if (!finished->policy.empty()) explain_.Add(finished);
  if (access_log_ != nullptr) access_log_->Add(finished);
  if (otlp_ != nullptr && finished->trace.sampled) otlp_->Add(finished);
}

}  // namespace ember::router
