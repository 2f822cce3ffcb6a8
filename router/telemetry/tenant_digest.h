// Who asked, in a form that may stand in logs. A pure function, any thread.
#pragma once

#include <string>

#include "client/http/headers.h"

namespace ember::router {

// The first 64 bits, as hexadecimal digits, of SHA-256 over the request's credential
// (Authorization, else x-api-key). Empty: it has none.
std::string TenantDigest(const http::Headers& headers);

}  // namespace ember::router
