// KnownCredentials: which credentials replicas have taken. Anybody can make up as many as he likes,
// so that only these make their bearers tenants with shares of their own. Bounded, the least
// recently used out first. One thread.
#pragma once

#include <string_view>

#include "proto/base/digest_lru.h"

namespace ember::router {

class KnownCredentials {
 public:
  static constexpr size_t kMax = 16384;

  // A replica answered a request that bore it; "": it bore none.
  void OnAnswer(std::string_view credential, int status);
  bool Knows(std::string_view credential);

 private:
  struct Nothing {};
  DigestLru<Nothing> known_;
};

}  // namespace ember::router
