#include "router/front/served_paths.h"

#include <algorithm>
#include <iterator>

namespace ember::router {
namespace {

// vLLM's, SGLang's and llama.cpp's, of OpenAI's, Cohere's, Jina's and Anthropic's APIs.
constexpr std::string_view kServed[] = {
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/embeddings",
    "/v1/rerank",
    "/v2/rerank",
    "/rerank",
    "/v1/score",
    "/score",
    "/v1/classify",
    "/classify",
    "/v1/pooling",
    "/pooling",
    "/v1/models",
    "/v1/moderations",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/v1/audio/speech",
    "/v1/images/generations",
    "/v1/images/edits",
    "/v1/images/variations",
    "/v1/tokenize",
    "/tokenize",
    "/v1/detokenize",
    "/detokenize",
    "/v1/messages",
    "/v1/messages/count_tokens",
};

// Of an object with an id.
constexpr std::string_view kResponses = "/v1/responses/";
constexpr std::string_view kModels = "/v1/models/";  // ids may have slashes

bool IsPlain(std::string_view path) {
  if (!path.starts_with('/') || path.find_first_of("%\\;#") != path.npos) return false;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at + 1), path.size());
    const std::string_view segment = path.substr(at + 1, end - at - 1);
    if (segment.empty() || segment == "." || segment == "..") return false;
    at = end;
  }
  return true;
}

constexpr std::string_view kRead = "GET, HEAD";

// What a path below that of responses takes; "" when there is no such path.
std::string_view MethodsOfResponse(std::string_view path) {
  if (!path.starts_with(kResponses)) return "";
  path.remove_prefix(kResponses.size());
  const size_t slash = path.find('/');
  if (slash == path.npos) return "GET, HEAD, DELETE";
  const std::string_view rest = path.substr(slash);
  return rest == "/cancel" ? "POST" : rest == "/input_items" ? kRead : "";
}

bool IsUnder(std::string_view path, std::string_view prefix) {
  return path.starts_with(prefix) &&
         (path.size() == prefix.size() || prefix.ends_with('/') || path[prefix.size()] == '/');
}

}  // namespace

bool ListsMethod(std::string_view methods, std::string_view method) {
  for (size_t at = 0; at < methods.size();) {
    const size_t end = std::min(methods.find(", ", at), methods.size());
    if (methods.substr(at, end - at) == method) return true;
    at = end + 2;
  }
  return false;
}

bool ServedPaths::IsOfMore(std::string_view path) const {
  return std::any_of(more_.begin(), more_.end(),
                     [&](const std::string& prefix) { return IsUnder(path, prefix); });
}

bool ServedPaths::Serves(std::string_view path) const {
  if (!IsPlain(path)) return false;
  if (std::find(std::begin(kServed), std::end(kServed), path) != std::end(kServed)) return true;
  return path.starts_with(kModels) || !MethodsOfResponse(path).empty() || IsOfMore(path);
}

std::string_view ServedPaths::MethodsOf(std::string_view path) const {
  if (IsOfMore(path)) return "";
  if (path == kModels.substr(0, kModels.size() - 1) || path.starts_with(kModels)) return kRead;
  const std::string_view of_response = MethodsOfResponse(path);
  return of_response.empty() ? "POST" : of_response;
}

bool ServedPaths::IsAnthropic(std::string_view path) { return IsUnder(path, "/v1/messages"); }

bool ServedPaths::IsOwn(std::string_view path) {
  constexpr std::string_view kOwn[] = {"/health", "/healthz", "/metrics", "/ui", "/admin"};
  return std::ranges::any_of(kOwn, [&](std::string_view own) { return IsUnder(path, own); });
}

bool ServedPaths::IsPrefix(std::string_view prefix) {
  if (prefix.size() > 1 && prefix.ends_with('/')) prefix.remove_suffix(1);
  return prefix.size() <= 200 && IsPlain(prefix);
}

}  // namespace ember::router
