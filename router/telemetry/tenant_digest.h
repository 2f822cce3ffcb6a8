// Who asked, in a form that may stand in logs. A pure function, any thread.
#pragma once

#include <string>
#include <string_view>

#include "client/http/headers.h"

namespace ember::router {

// The request's Authorization, else x-api-key; "": it has neither. Not for logs.
std::string_view CredentialOf(const http::Headers& headers);
// The first 64 bits, as hexadecimal digits, of SHA-256 over that credential; "": it has none.
std::string TenantDigest(const http::Headers& headers);

}  // namespace ember::router
