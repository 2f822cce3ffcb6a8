#include "router/front/door.h"

#include "router/front/model_pages.h"

namespace ember::router {
namespace {

namespace asio = boost::asio;
using http::OpenAiError;

constexpr std::string_view kModelList = "/v1/models";
constexpr std::string_view kModelPath = "/v1/models/";

// Counts one request as long as it lives.
class InFlight {
 public:
  InFlight(size_t* count, Gauge* gauge) : count_(count), gauge_(gauge) { Set(*count_ + 1); }
  ~InFlight() { Set(*count_ - 1); }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

 private:
  void Set(size_t n) {
    *count_ = n;
    gauge_->Set(static_cast<double>(n));
  }
  size_t* count_;
  Gauge* gauge_;
};

}  // namespace

asio::awaitable<void> Door::Answer(http::Request& request, http::ResponseWriter& writer) {
  UnescapeModel(&request);
  if (ServedPaths::IsAnthropic(request.path)) {
    writer.SetErrorShape(http::ErrorShape::kAnthropic);
  }
  if (served_.Serves(request.path)) return AnswerServed(request, writer);
  if (admin_ != nullptr && AdminApi::Knows(request.path)) return admin_->Answer(request, writer);
  if (!Pages::TellsOfRequests(request.path) ||
      (request.path == Pages::kExplain ? told_.explain : told_.live)) {
    return AnswerPage(request, writer);
  }
  if (told_.token) return pages_.Answer(request, writer, Pages::For::kToken);
  return Refuse(
      request, writer,
      OpenAiError::ForHttpStatus(
          403,
          request.path + " is not for everybody: " +
              (told_.elsewhere ? "ask it at the address of --admin"
                               : "give the router one for it, like --admin=127.0.0.1:8090"),
          "forbidden"));
}

asio::awaitable<void> Door::AnswerRefused(http::Request& request, http::ResponseWriter& writer,
                                          OpenAiError error, http::Headers extra) {
  if (ServedPaths::IsAnthropic(request.path)) {
    writer.SetErrorShape(http::ErrorShape::kAnthropic);
  }
  if (served_.Serves(request.path)) cors_.Apply(request, writer);
  co_await Refuse(request, writer, std::move(error), std::move(extra));
}

asio::awaitable<void> Door::AnswerServed(http::Request& request, http::ResponseWriter& writer) {
  cors_.Apply(request, writer);
  const std::string methods(served_.MethodsOf(request.path));
  if (auto preflight = cors_.Preflight(request, methods)) {
    const Status sent = co_await writer.Send(*std::move(preflight), "");
    (void)sent.ok();  // a client that left has no further claims
    co_return;
  }
  // Where the engines answer for CORS, they are asked. CONNECT and TRACE are about the connection,
  // or would show an engine's secrets to a page.
  const bool passed = methods.empty() ? request.method != "CONNECT" && request.method != "TRACE"
                                      : ListsMethod(methods, request.method);
  if (!passed && !(request.method == "OPTIONS" && cors_.empty())) {
    http::Headers allow;
    if (!methods.empty()) allow.Add("Allow", methods);
    co_return co_await Refuse(
        request, writer,
        OpenAiError::ForHttpStatus(
            405, request.path.substr(0, 200) + " does not take " + request.method.substr(0, 20)),
        std::move(allow));
  }
  if (AsksForModels(request)) co_return co_await AnswerModels(request, writer);
  co_await AnswerRouted(request, writer);
}

asio::awaitable<void> Door::AnswerPage(http::Request& request, http::ResponseWriter& writer) {
  const std::string& path = request.path;
  if (Pages::Knows(path)) co_return co_await pages_.Answer(request, writer);
  const bool health = path == "/health" || path == "/healthz";
  if (!health) {
    co_return co_await Refuse(
        request, writer,
        OpenAiError::ForHttpStatus(404, "no such path: " + path.substr(0, 200), "unknown_url"));
  }
  if (request.method != "GET" && request.method != "HEAD") {
    co_return co_await Refuse(request, writer,
                              OpenAiError::ForHttpStatus(405, path + " takes GET only"),
                              {{"Allow", "GET, HEAD"}});
  }
  co_await AnswerHealth(writer);
}

// SDKs escape the slash in a model's name. That page is the router's own: what is asked of replicas
// is never unescaped.
void Door::UnescapeModel(http::Request* request) const {
  if (!request->path.starts_with(kModelPath) || request->path.find('%') == std::string::npos ||
      request->headers.Has("x-ember-pin") || (request->method == "OPTIONS" && cors_.empty())) {
    return;
  }
  const std::string name =
      http::PercentDecoded(std::string_view(request->path).substr(kModelPath.size()));
  if (replicas_.models().Lists(name)) request->path = std::string(kModelPath) + name;
}

bool Door::AsksForModels(const http::Request& request) const {
  const std::string_view path = request.path;
  const bool read = request.method == "GET" || request.method == "HEAD";
  if (!read || !served_.Serves(path) || request.headers.Has("x-ember-pin")) return false;
  if (path == kModelList) return !replicas_.models().empty();
  // Of a name that nobody lists, who takes requests for it may tell.
  return path.starts_with(kModelPath) && replicas_.models().Lists(path.substr(kModelPath.size()));
}

asio::awaitable<void> Door::AnswerModels(const http::Request& request,
                                         http::ResponseWriter& writer) {
  const std::string_view path = request.path;
  const std::string body = path == kModelList
                               ? ModelListJson(replicas_.models())
                               : ModelJson(replicas_.models(), path.substr(kModelPath.size()));
  RequestRecord record;
  telemetry_.Begin(request, &record);
  http::Headers headers;
  Telemetry::NameReply(record, &headers);
  const Status sent = co_await writer.SendJson(200, body, std::move(headers));
  record.status = 200;
  record.outcome = sent.ok() ? "done" : "client_gone";
  record.reply_bytes = body.size();
  telemetry_.Finish(std::move(record));
}

asio::awaitable<void> Door::AnswerRouted(http::Request& request, http::ResponseWriter& writer) {
  const std::string coding(request.headers.Get("Content-Encoding").substr(0, 50));
  if (!request.body.empty() && !coding.empty() && !http::EqualNoCase(coding, "identity")) {
    co_return co_await Refuse(
        request, writer,
        OpenAiError::ForHttpStatus(
            415, "Content-Encoding: " + coding + " is not understood; send the body as it is"),
        {{"Accept-Encoding", "identity"}});
  }
  if (in_flight_ >= max_in_flight_) {
    metrics_.refused_busy.Add();
    co_return co_await Refuse(
        request, writer,
        OpenAiError::ForHttpStatus(429, "too many requests under way here; try again", "busy"),
        {{"Retry-After", std::to_string(retry_after_())}});
  }
  const InFlight counted(&in_flight_, &metrics_.in_flight);
  co_await route_(request, writer);
}

asio::awaitable<void> Door::Refuse(const http::Request& request, http::ResponseWriter& writer,
                                   OpenAiError error, http::Headers headers) {
  RequestRecord record;
  telemetry_.Begin(request, &record);
  record.status = error.status;
  record.outcome = writer.stopping()     ? "shutdown"
                   : error.status == 499 ? "client_gone"
                                         : "refused: " + error.message;
  Telemetry::NameReply(record, &headers);
  const Status sent = co_await writer.SendError(std::move(error), std::move(headers));
  (void)sent.ok();  // a client that left has no further claims
  telemetry_.Finish(std::move(record));
}

asio::awaitable<void> Door::AnswerHealth(http::ResponseWriter& writer) {
  const size_t usable = replicas_.usable_count();
  const char* status = stopping_ ? "stopping" : usable > 0 ? "ok" : "no_replica";
  const std::string body = "{\"status\":\"" + std::string(status) +
                           "\",\"usable_replicas\":" + std::to_string(usable) +
                           ",\"replicas\":" + std::to_string(replicas_.size()) + "}";
  const Status sent = co_await writer.SendJson(usable > 0 && !stopping_ ? 200 : 503, body);
  (void)sent.ok();
}

}  // namespace ember::router
