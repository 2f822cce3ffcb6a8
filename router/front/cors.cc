#include "router/front/cors.h"

#include <algorithm>
#include <utility>

namespace ember::router {
namespace {

constexpr std::string_view kAny = "*";
constexpr char kAllowOrigin[] = "Access-Control-Allow-Origin";
// Browsers ask again after this long.
constexpr char kMaxAgeSeconds[] = "3600";

}  // namespace

bool Cors::IsOrigin(std::string_view text) {
  if (text == kAny) return true;
  const size_t scheme = text.find("://");
  if (scheme == text.npos || scheme == 0) return false;
  const bool small = std::ranges::none_of(
      text, [](unsigned char c) { return c <= ' ' || c >= 0x7f || (c >= 'A' && c <= 'Z'); });
  std::string_view host = text.substr(scheme + 3);
  if (!small || host.find_first_of("/?#@*,") != host.npos) return false;
  const size_t colon = host.find(':', host.find(']') == host.npos ? 0 : host.find(']'));
  if (colon != host.npos) {
    const std::string_view port = host.substr(colon + 1);
    const std::string_view own = text.starts_with("https:")  ? "443"
                                 : text.starts_with("http:") ? "80"
                                                             : "";
    const bool number = port.find_first_not_of("0123456789") == port.npos;
    if (port.empty() || port.size() > 5 || !number || port.front() == '0' || port == own) {
      return false;
    }
    host = host.substr(0, colon);
  }
  return !host.empty();
}

std::string Cors::AllowedOrigin(const http::Request& request) const {
  const std::string_view origin = request.headers.Get("Origin");
  if (origin.empty()) return "";
  for (const std::string& allowed : origins_) {
    if (allowed == kAny || allowed == origin) return allowed;
  }
  return "";
}

void Cors::Apply(const http::Request& request, http::ResponseWriter& writer) const {
  if (empty()) return;
  std::string origin = AllowedOrigin(request);
  const char* exposed = origin.empty() ? "" : "*";
  // An empty one takes the replica's own away. What a cache keeps is for one page, or for all.
  writer.SetReplyFields({{kAllowOrigin, std::move(origin)},
                         {"Access-Control-Allow-Credentials", ""},
                         {"Access-Control-Expose-Headers", exposed},
                         {"Vary", "Origin, Accept-Encoding"}});
}

std::optional<http::ResponseHead> Cors::Preflight(const http::Request& request,
                                                  std::string_view methods) const {
  if (request.method != "OPTIONS" || AllowedOrigin(request).empty() ||
      !request.headers.Has("Access-Control-Request-Method")) {
    return {};
  }
  http::ResponseHead head{
      .status = 204,
      .headers = {
          {"Access-Control-Allow-Methods",
           methods.empty() ? std::string(request.headers.Get("Access-Control-Request-Method"))
                           : std::string(methods)},
          {"Access-Control-Max-Age", kMaxAgeSeconds}}};
  const std::string_view fields = request.headers.Get("Access-Control-Request-Headers");
  if (!fields.empty()) head.headers.Add("Access-Control-Allow-Headers", std::string(fields));
  return head;
}

}  // namespace ember::router
