#include "router/response_homes.h"

#include "proto/base/bytes.h"
#include "router/front/response_id.h"

namespace ember::router {
namespace {

constexpr std::string_view kMade = "/v1/responses";
constexpr std::string_view kById = "/v1/responses/";

Checksum DigestOfId(std::string_view id) { return Xxh3Of(AsBytes(id)); }

// The response that the request names; "" when it names none.
std::string_view ResponseOf(const http::Request& request) {
  std::string_view path = request.path;
  if (path.starts_with(kById)) {
    path.remove_prefix(kById.size());
    return path.substr(0, path.find('/'));
  }
  return ResponseHomes::Makes(request) ? StringField(request.body, "\"previous_response_id\"") : "";
}

}  // namespace

bool ResponseHomes::Makes(const http::Request& request) {
  return request.path == kMade && request.method == "POST";
}

void ResponseHomes::Remember(std::string_view id, const std::shared_ptr<Endpoint>& home) {
  if (id.empty() || id.size() > kMaxId || !homes_.Put(DigestOfId(id), home)) return;
  if (homes_.size() > kMaxResponses) homes_.DropOldest();
}

std::shared_ptr<Endpoint> ResponseHomes::Find(const http::Request& request) {
  if (homes_.empty()) return nullptr;
  const std::string_view id = ResponseOf(request);
  if (id.empty()) return nullptr;
  const auto* home = homes_.Find(DigestOfId(id));
  std::shared_ptr<Endpoint> endpoint = home == nullptr ? nullptr : home->lock();
  return endpoint == nullptr || endpoint->removed ? nullptr : endpoint;
}

}  // namespace ember::router
