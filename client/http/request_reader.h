// RequestReader: takes whole requests from one client connection. The only place where bytes from
// clients are parsed (by Beast).
//
// Concurrency: the connection's strand. Owned by the connection, as is the socket.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/http/body_budget.h"
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
  enum class Pull { kData, kNothingYet, kFull, kEnd, kBroken };

  RequestReader(boost::asio::ip::tcp::socket& socket, Limits limits, BodyBudget& budget);
  ~RequestReader();

  // Reads the head of the next request into `out` (everything but the body).
  boost::asio::awaitable<std::optional<Failure>> ReadHead(Request* out);
  // Of the head just read:
  bool http10() const;
  bool keep_alive() const;
  bool awaits_continue() const;  // the client waits for "100 Continue" and has sent no body yet
  bool has_body() const;
  // Reads its body; `on_progress` is called whenever bytes came.
  boost::asio::awaitable<std::optional<Failure>> ReadBody(std::string* body,
                                                          std::function<void()> on_progress);
  // The request is answered: forgets it and gives its share of the budget back.
  void EndRequest();

  // Bytes of the next request are here already.
  bool HasBufferedBytes() const;
  // Takes what the socket has without waiting, while a request is being answered: bounded
  // read-ahead, so that an end of the stream behind it is seen.
  Pull PullAvailable();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ember::http
