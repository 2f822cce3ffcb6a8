// Cors: which web pages may call the API (fetch.spec.whatwg.org, "CORS protocol"), where the router
// answers for that. Immutable; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/http/request.h"
#include "client/http/response_writer.h"

namespace ember::router {

class Cors {
 public:
  // Each a page's origin, as browsers name it, or "*" for all. None: the engines answer for it.
  explicit Cors(std::vector<std::string> origins) : origins_(std::move(origins)) {}
  // "*" or "scheme://host[:port]" just as browsers write it: in small letters, without the scheme's
  // own port. Anything else is never equal to what they send.
  static bool IsOrigin(std::string_view text);

  bool empty() const { return origins_.empty(); }
  // The request's reply will say whether its page may read it, whatever its replica says.
  void Apply(const http::Request& request, http::ResponseWriter& writer) const;
  // The answer to a browser's question whether a page may call a path that takes `methods`; nothing
  // where the request is none, or its page may not.
  std::optional<http::ResponseHead> Preflight(const http::Request& request,
                                              std::string_view methods) const;

 private:
  // "": none.
  std::string AllowedOrigin(const http::Request& request) const;

  const std::vector<std::string> origins_;
};

}  // namespace ember::router
