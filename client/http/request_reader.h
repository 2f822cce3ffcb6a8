// RequestReader: takes whole requests from one client connection. The only place where bytes from
// clients are parsed (by Beast).
//
// Concurrency: the connection's strand. Owned by the connection, as are the client's bytes.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/http/body_budget.h"
#include "client/http/client_bytes.h"
#include "client/http/request.h"

namespace ember::http {

class RequestReader {
 public:
  struct Limits {
    size_t header_bytes;
    size_t body_bytes;
  };
  // Why there is no request. Status 0: the connection ended, there is nobody to answer.
  struct Failure {
    int status = 0;
    std::string message;
  };

  RequestReader(ClientBytes& bytes, Limits limits, BodyBudget& budget);
  ~RequestReader();

  // Reads the head of the next request into `out` (everything but the body); on a failure as far as
  // it was understood.
  boost::asio::awaitable<std::optional<Failure>> ReadHead(Request* out);
  // Of the head just read:
  bool http10() const;
  bool keep_alive() const;
  bool awaits_continue() const;  // the client waits for "100 Continue" and has sent no body yet
  bool has_body() const;
  // Reads its body; `on_progress` hears how many bytes came. The string has room for 64 bytes
  // more than it holds, for parsers that look beyond the end.
  boost::asio::awaitable<std::optional<Failure>> ReadBody(std::string* body,
                                                          std::function<void(size_t)> on_progress);
  // The request is answered: forgets it and gives its share of the budget and its memory back.
  void EndRequest(std::string body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ember::http
