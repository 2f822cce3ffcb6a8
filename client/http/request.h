// Request: one whole HTTP request as the server received it, body included.
// Owned by the server's connection; valid until the handler returns, in the handler's strand.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/http/headers.h"
#include "proto/base/time.h"

namespace ember::http {

struct Request {
  std::string method;  // as sent: "POST"
  std::string target;  // as sent, query included: "/v1/models?limit=2"
  std::string path;    // the target up to '?', not decoded: "/v1/models"
  std::vector<std::pair<std::string, std::string>> query;  // decoded, in order, duplicates kept
  Headers headers;                                         // duplicates of one name stand together
  std::string body;       // exactly the bytes the client sent, transfer coding removed
  std::string peer;       // "127.0.0.1:50312"
  bool secure = false;    // it came under TLS
  TimePoint received_at;  // when the header was complete

  // The first query parameter of that name.
  std::optional<std::string_view> QueryParam(std::string_view name) const;
  // Fills target, path and query; an absolute-form target ("http://host/path") loses its origin.
  void SetTarget(std::string_view new_target);
};

// "a%2Fb" gives "a/b"; a broken escape stays as it is.
std::string PercentDecoded(std::string_view s);

// "host" of an absolute-form target ("http://host/path"), which may be empty; else nothing.
std::optional<std::string_view> HostOfTarget(std::string_view target);

// The head of a reply, from an upstream or to a client.
struct ResponseHead {
  int status = 200;
  Headers headers;
};

}  // namespace ember::http
