// AdminApi: the fleet over HTTP, for people and their tools.
//
//   GET    /admin/replicas              who is there, in which state, from which source
//   POST   /admin/replicas              a JSON object of ReplicaConfig's fields joins: 201
//   POST   /admin/replicas/ID/drain     no new requests; those under way end as they do
//   POST   /admin/replicas/ID/resume    the end of a drain
//   DELETE /admin/replicas/ID           goes as soon as its requests have ended
//
// Errors have OpenAI's shape. With a token every request needs it as its bearer. Without one a
// request that a web page makes is refused: whoever opened the page is not who asks.
// Concurrency: a handler of HttpServer on the router's loop. What it refers to outlives the server.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <string>

#include "client/http/openai_error.h"
#include "client/http/request.h"
#include "client/http/response_writer.h"
#include "router/fleet/membership.h"

namespace ember::router {

class AdminApi {
 public:
  // `token`: empty for none.
  AdminApi(Membership& membership, ReplicaSet& replicas, std::string token)
      : membership_(membership), replicas_(replicas), token_(std::move(token)) {}

  // True for paths that Answer knows.
  static bool Knows(std::string_view path);
  boost::asio::awaitable<void> Answer(http::Request& request, http::ResponseWriter& writer);

  // 401 where there is a token and the request does not bear it.
  std::optional<http::OpenAiError> CheckToken(const http::Request& request) const;

 private:
  struct Reply {
    int status = 200;
    std::string body;
  };
  // Why not, else nothing.
  std::optional<http::OpenAiError> Refusal(const http::Request& request) const;
  Result<Reply> Act(const http::Request& request);
  Result<Reply> Add(const http::Request& request);
  Result<Reply> Change(const http::Request& request, std::string_view rest);
  std::string DescribeAll() const;
  std::string Describe(const Endpoint& endpoint) const;

  Membership& membership_;
  ReplicaSet& replicas_;
  const std::string token_;
};

}  // namespace ember::router
