#include "router/front/pages.h"

#include <algorithm>
#include <charconv>

#include "client/http/json_object.h"
#include "proto/base/process_metrics.h"
#include "router/ui/ui_files.h"

namespace ember::router {
namespace {

namespace asio = boost::asio;
using http::OpenAiError;

constexpr size_t kExplainedByDefault = 20;
// A fleet of hundreds makes long tables, and the loop waits while they are written.
constexpr uint64_t kMaxExplained = 100;
constexpr size_t kMaxLive = 200;

Result<uint64_t> NumberParam(const http::Request& request, std::string_view name,
                             uint64_t otherwise) {
  const auto text = request.QueryParam(name);
  if (!text) return otherwise;
  uint64_t n = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), n);
  if (text->empty() || error != std::errc() || end != text->data() + text->size()) {
    return InvalidError("?" + std::string(name) + "= is no number");
  }
  return n;
}

http::Headers UiHeaders(const UiFile& file) {
  return {{"Content-Type", std::string(file.content_type)},
          {"Cache-Control", "no-cache"},
          {"Content-Security-Policy",
           "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
           "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"}};
}

}  // namespace

bool Pages::Knows(std::string_view path) { return path == "/metrics" || TellsOfRequests(path); }

bool Pages::TellsOfRequests(std::string_view path) {
  return path == "/admin/status" || path == kExplain || path == "/admin/live" ||
         FindUiFile(path) != nullptr;
}

asio::awaitable<void> Pages::Answer(http::Request& request, http::ResponseWriter& writer,
                                    For whom) {
  const std::string& path = request.path;
  const bool read = request.method == "GET" || request.method == "HEAD";
  Status sent;
  const bool guarded = path == kExplain || (whom == For::kToken && FindUiFile(path) == nullptr);
  auto refused = guarded ? parts_.check_token(request) : std::nullopt;
  if (refused) {
    sent = co_await writer.SendError(*std::move(refused), {{"WWW-Authenticate", "Bearer"}});
  } else if (path == kExplain && request.method == "POST") {
    sent = co_await SendJson(co_await parts_.explain_request(request), writer);
  } else if (!read) {
    const char* allowed = path == kExplain ? "GET, HEAD, POST" : "GET, HEAD";
    sent = co_await writer.SendError(
        OpenAiError::ForHttpStatus(405, path + " does not take " + request.method.substr(0, 20)),
        {{"Allow", allowed}});
  } else if (path == "/metrics") {
    sent = co_await writer.Send({.headers = {{"Content-Type", "text/plain; version=0.0.4"}}},
                                parts_.registry->RenderPrometheusText() + ProcessMetricsText() +
                                    parts_.status().PrometheusText());
  } else if (path == "/admin/status") {
    sent = co_await writer.SendJson(200, parts_.status().Json());
  } else if (path == kExplain) {
    sent = co_await SendJson(ExplainedJson(request), writer);
  } else if (path == "/admin/live") {
    sent = co_await SendJson(LiveJson(request), writer);
  } else if (const UiFile* file = FindUiFile(path)) {
    sent = co_await writer.Send({.headers = UiHeaders(*file)}, file->content);
  }
  (void)sent.ok();  // a client that left has no further claims
}

asio::awaitable<Status> Pages::SendJson(Result<std::string> json, http::ResponseWriter& writer) {
  if (!json.ok()) co_return co_await writer.SendError(OpenAiError::FromStatus(json.status()));
  co_return co_await writer.SendJson(200, *json, {{"Cache-Control", "no-store"}});
}

Result<std::string> Pages::ExplainedJson(const http::Request& request) const {
  const Result<uint64_t> n = NumberParam(request, "n", kExplainedByDefault);
  if (!n.ok()) return n.status();
  const std::string_view id = request.QueryParam("id").value_or("");
  if (!id.empty() && !parts_.explain->Has(id)) {
    return NotFoundError("no such request among the newest");
  }
  return parts_.explain->Json(id, std::min(*n, kMaxExplained));
}

Result<std::string> Pages::LiveJson(const http::Request& request) const {
  const Result<uint64_t> after = NumberParam(request, "after", 0);
  if (!after.ok()) return after.status();
  return http::JsonObject()
      .Add("finished", parts_.telemetry->finished())
      .AddRaw("requests", parts_.explain->BriefJson(*after, kMaxLive))
      .AddRaw("status", parts_.status().Json())
      .ToString();
}

}  // namespace ember::router
