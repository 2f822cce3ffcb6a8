// ResponseHomes: which replica made a response of /v1/responses, for engines keep them to
// themselves: who asks for one by its id, or goes on from it, has to reach the same replica.
// Bounded, the least recently used out first; what a replica that is gone had made is forgotten.
// One thread.
#pragma once

#include <memory>
#include <string_view>

#include "client/http/request.h"
#include "proto/base/digest_lru.h"
#include "router/fleet/endpoint.h"

namespace ember::router {

class ResponseHomes {
 public:
  static constexpr size_t kMaxResponses = 65536;
  static constexpr size_t kMaxId = 256;

  // A request whose reply tells the id of a response.
  static bool Makes(const http::Request& request);
  void Remember(std::string_view id, const std::shared_ptr<Endpoint>& home);
  // Of the response that the request is about; null: of none, or it is not known.
  std::shared_ptr<Endpoint> Find(const http::Request& request);
  size_t size() const { return homes_.size(); }

 private:
  DigestLru<std::weak_ptr<Endpoint>> homes_;
};

}  // namespace ember::router
