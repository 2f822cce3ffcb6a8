#include "router/fleet/replica_config.h"

#include <algorithm>

namespace ember::router {
namespace {

bool IsId(std::string_view id) {
  return !id.empty() && id.size() <= 64 && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

}  // namespace

Result<ReplicaConfig> ReplicaConfig::Parse(std::string_view text) {
  const std::string context = "replica \"" + std::string(text.substr(0, 200)) + "\"";
  ReplicaConfig config;
  const size_t comma = text.find(',');
  config.id = text.substr(0, comma);
  if (!IsId(config.id)) {
    return InvalidError(context + ": starts with an id of letters, digits and \"._-\"");
  }
  std::string_view rest = comma == text.npos ? "" : text.substr(comma + 1);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string_view field = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t equals = field.find('=');
    const std::string_view name = field.substr(0, equals);
    if (equals == field.npos || (name != "http" && name != "grpc")) {
      return InvalidError(context + ": expected http=HOST:PORT or grpc=HOST:PORT, not \"" +
                          std::string(field) + "\"");
    }
    Result<http::Origin> origin = http::Origin::Parse(field.substr(equals + 1));
    if (!origin.ok()) return origin.status().WithContext(context);
    if (name == "http") {
      config.http = *std::move(origin);
    } else {
      config.grpc = origin->ToString();
    }
  }
  if (config.http.port == 0) return InvalidError(context + ": http=HOST:PORT is missing");
  return config;
}

}  // namespace ember::router
