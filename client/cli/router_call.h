// One question to a router's HTTP port. Blocks; any thread.
#pragma once

#include <string>

#include "client/http/upstream_pool.h"

namespace ember::cli {

// The body of an answer of the 200s. kInvalid: the router says 400, with its words. kNotFound: 404.
// kUnavailable: it says something else, or nothing.
Result<std::string> CallRouter(const http::Origin& router, http::UpstreamRequest request,
                               Duration timeout);

}  // namespace ember::cli
