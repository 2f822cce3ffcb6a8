// Tokenizer: a request as what is known of its prompt.
//
// Concurrency: the router's loop thread. A failure is ordinary: the caller then routes by load.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string_view>

#include "proto/base/status.h"
#include "router/tokenize/tokenized_prompt.h"

namespace ember::router {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // `path` and `body` as received; both stay valid until the coroutine ends. kInvalid: no prompt
  // can be made of the body. kNoSpace: the body is too large to be asked about. kUnavailable,
  // kDeadline: nobody answered.
  virtual boost::asio::awaitable<Result<SharedPrompt>> Tokenize(std::string_view path,
                                                                std::string_view body) = 0;
  // Runs a job that takes the loop too long on a thread that such jobs have to themselves. Waits as
  // long as that takes; the caller bounds how many do.
  virtual boost::asio::awaitable<void> Aside(std::function<void()> job) {
    job();
    co_return;
  }
  // A replica's identity changed, so that earlier answers name nothing any more.
  virtual void Forget() {}
};

}  // namespace ember::router
