#include "router/front/admin_api.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "client/http/json_writer.h"
#include "router/front/admin_request.h"
#include "router/front/served_paths.h"

namespace ember::router {
namespace {

namespace asio = boost::asio;
using http::OpenAiError;

constexpr std::string_view kReplicas = "/admin/replicas";

// Takes as long whatever the difference is.
bool SameSecret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

// What follows "Bearer", whose case does not matter (RFC 9110, 11.1); "" for other schemes.
std::string_view BearerOf(std::string_view credentials) {
  constexpr std::string_view kScheme = "Bearer ";
  if (!http::EqualNoCase(credentials.substr(0, kScheme.size()), kScheme)) return "";
  const size_t token = credentials.find_first_not_of(' ', kScheme.size());
  return token == credentials.npos ? "" : credentials.substr(token);
}

// What a path of this API takes; "": there is no such path.
std::string_view MethodsOf(std::string_view path) {
  path.remove_prefix(kReplicas.size());
  if (path.empty()) return "GET, HEAD, POST";
  const size_t slash = path.find('/', 1);
  if (slash == path.npos) return "GET, HEAD, DELETE";
  const std::string_view verb = path.substr(slash);
  return verb == "/drain" || verb == "/resume" ? "POST" : "";
}

bool IsJson(const http::Request& request) {
  const std::string_view type = request.headers.Get("Content-Type");
  return http::EqualNoCase(type.substr(0, type.find(';')), "application/json");
}

}  // namespace

bool AdminApi::Knows(std::string_view path) {
  return path.starts_with(kReplicas) &&
         (path.size() == kReplicas.size() || path[kReplicas.size()] == '/');
}

std::optional<OpenAiError> AdminApi::CheckToken(const http::Request& request) const {
  if (token_.empty()) return {};
  if (SameSecret(BearerOf(request.headers.Get("Authorization")), token_)) return {};
  return OpenAiError::ForHttpStatus(401, "the admin API wants its token as bearer", "unauthorized");
}

std::optional<OpenAiError> AdminApi::Refusal(const http::Request& request) const {
  if (!token_.empty()) return CheckToken(request);
  if (!request.headers.Has("Origin")) return {};
  return OpenAiError::ForHttpStatus(403, "web pages may not use the admin API", "forbidden");
}

asio::awaitable<void> AdminApi::Answer(http::Request& request, http::ResponseWriter& writer) {
  std::optional<OpenAiError> error = Refusal(request);
  http::Headers headers;
  if (error && error->status == 401) headers.Add("WWW-Authenticate", "Bearer");
  Reply reply;
  const std::string_view methods = MethodsOf(request.path);
  if (!error && methods.empty()) {
    error = OpenAiError::ForHttpStatus(404, "no such path: " + request.path.substr(0, 200),
                                       "unknown_url");
  } else if (!error && !ListsMethod(methods, request.method)) {
    error = OpenAiError::ForHttpStatus(
        405, request.path.substr(0, 200) + " takes " + std::string(methods));
    headers.Add("Allow", std::string(methods));
  }
  if (!error) {
    Result<Reply> done = Act(request);
    if (done.ok()) {
      reply = *std::move(done);
    } else if (done.status().code() == StatusCode::kMismatch) {
      error = OpenAiError::ForHttpStatus(409, std::string(done.status().message()), "conflict");
    } else {
      error = OpenAiError::FromStatus(done.status());
    }
  }
  const Status sent = error ? co_await writer.SendError(*std::move(error), std::move(headers))
                            : co_await writer.SendJson(reply.status, reply.body);
  (void)sent.ok();  // a client that left has no further claims
}

Result<AdminApi::Reply> AdminApi::Act(const http::Request& request) {
  const std::string_view rest = std::string_view(request.path).substr(kReplicas.size());
  if (rest.starts_with('/')) return Change(request, rest.substr(1));
  return request.method == "POST" ? Add(request) : Reply{200, DescribeAll()};
}

Result<AdminApi::Reply> AdminApi::Add(const http::Request& request) {
  if (!IsJson(request)) return InvalidError("a replica is application/json");
  Result<ReplicaConfig> config = ReadReplicaJson(request.body);
  if (!config.ok()) return config.status();
  // Its first line would go to an address of the caller's choosing.
  if (!config->key_file.empty()) return InvalidError("key_file: files are not read for this API");
  const std::string id = config->id;
  if (replicas_.Find(id) != nullptr) {
    return MismatchError("there is a replica \"" + id + "\" already");
  }
  EMBER_RETURN_IF_ERROR(membership_.Add(kAdminSource, *std::move(config)));
  spdlog::info("admin: {} adds replica {}", request.peer, id);
  return Reply{201, Describe(*replicas_.Find(id))};
}

Result<AdminApi::Reply> AdminApi::Change(const http::Request& request, std::string_view rest) {
  const size_t slash = rest.find('/');
  const std::string id(rest.substr(0, slash));
  const std::string_view verb = slash == rest.npos ? "" : rest.substr(slash + 1);
  const Endpoint* endpoint = replicas_.Find(id);
  if (endpoint == nullptr) {
    return NotFoundError("there is no replica \"" + id.substr(0, 100) + "\"");
  }
  if (request.method == "DELETE") {
    const uint32_t under_way = endpoint->under_way;
    EMBER_RETURN_IF_ERROR(membership_.Remove(id));
    spdlog::info("admin: {} removes replica {}", request.peer, id);
    return Reply{200, fmt::format(R"({{"id":{},"state":"gone","in_flight":{}}})",
                                  http::JsonString(id), under_way)};
  }
  if (verb.empty()) return Reply{200, Describe(*endpoint)};
  EMBER_RETURN_IF_ERROR(verb == "drain" ? replicas_.Drain(id) : replicas_.Resume(id));
  spdlog::info("admin: {} {}s replica {}", request.peer, verb, id);
  return Reply{200, Describe(*endpoint)};
}

std::string AdminApi::DescribeAll() const {
  std::string out = "{\"replicas\":[";
  for (const auto& endpoint : replicas_.endpoints()) {
    if (out.back() != '[') out += ',';
    out += Describe(*endpoint);
  }
  out += "],\"troubles\":{";
  for (const auto& [source, what] : membership_.troubles()) {
    if (out.back() != '{') out += ',';
    out += http::JsonString(source) + ":" + http::JsonString(what);
  }
  return out + "}}";
}

// All but its key.
std::string AdminApi::Describe(const Endpoint& e) const {
  const ReplicaConfig& c = e.config;
  std::string out =
      fmt::format(R"({{"id":{},"state":"{}","why":{},"in_flight":{},"source":"{}","http":{})",
                  http::JsonString(c.id), e.state(), http::JsonString(e.health.why()), e.under_way,
                  membership_.SourceOf(c.id), http::JsonString(c.http.ToString()));
  const std::pair<const char*, const std::string&> texts[] = {
      {"grpc", c.grpc}, {"events", c.events}, {"replay", c.replay}, {"host", c.host}};
  for (const auto& [name, value] : texts) {
    if (!value.empty()) out += fmt::format(R"(,"{}":{})", name, http::JsonString(value));
  }
  std::string models;
  for (const ServedModel& model : replicas_.models().ListOf(e.members.front()).models) {
    models += (models.empty() ? "" : ",") + http::JsonString(model.name);
  }
  out += ",\"models\":[" + models + "]";
  if (c.ranks > 0) {
    out += fmt::format(R"(,"ranks":"{}@{}")", c.ranks, c.first_rank);
  }
  return out + fmt::format(R"(,"weight":{},"max_concurrency":{}}})", c.weight, c.max_concurrency);
}

}  // namespace ember::router
