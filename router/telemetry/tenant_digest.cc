#include "router/telemetry/tenant_digest.h"

#include "proto/base/bytes.h"
#include "proto/model/kv_namespace.h"

namespace ember::router {

std::string_view CredentialOf(const http::Headers& headers) {
  const std::string_view credential = headers.Get("Authorization");
  return credential.empty() ? headers.Get("x-api-key") : credential;
}

std::string TenantDigest(const http::Headers& headers) {
  const std::string_view credential = CredentialOf(headers);
  if (credential.empty()) return "";
  const Sha256Digest digest = Sha256(AsBytes(credential));
  return ToHex(ByteSpan(digest).first(8));
}

}  // namespace ember::router
