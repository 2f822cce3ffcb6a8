#include "router/admission/known_credentials.h"

#include "proto/base/bytes.h"

namespace ember::router {

void KnownCredentials::OnAnswer(std::string_view credential, int status) {
  if (credential.empty()) return;
  const Checksum digest = Xxh3Of(AsBytes(credential));
  if (status == 401) return (void)known_.Drop(digest);
  if (status / 100 != 2 || known_.Find(digest) != nullptr) return;
  known_.Put(digest, {});
  if (known_.size() > kMax) known_.DropOldest();
}

bool KnownCredentials::Knows(std::string_view credential) {
  return !known_.empty() && known_.Find(Xxh3Of(AsBytes(credential))) != nullptr;
}

}  // namespace ember::router
