// EngineEndpoint: asks an engine itself what a prompt's tokens are: POST /tokenize with the
// request's own body (vLLM), else /apply-template and then /tokenize (llama.cpp's server).
//
// Concurrency: the router's loop thread. `pool` must outlive it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "client/http/upstream_pool.h"
#include "proto/model/block_hash.h"
#include "router/fleet/replica_config.h"
#include "router/tokenize/model_tokenizer.h"

namespace ember::router {

class EngineEndpoint {
 public:
  // `aside`: as in ExchangeOptions.
  explicit EngineEndpoint(http::UpstreamPool& pool, bool aside = false)
      : pool_(pool), aside_(aside) {}

  // kInvalid: the engine has no such endpoint, or does not understand the body. `deadline`: for all
  // that must be asked.
  boost::asio::awaitable<Result<std::vector<TokenId>>> Tokenize(const ReplicaConfig& replica,
                                                                PromptApi api,
                                                                std::string_view body,
                                                                Duration deadline,
                                                                http::Cancellation* stop = nullptr);

 private:
  // The body of a reply with status 200.
  boost::asio::awaitable<Result<std::string>> Ask(const ReplicaConfig& replica, const char* target,
                                                  std::string_view body, Duration deadline,
                                                  http::Cancellation* stop);

  http::UpstreamPool& pool_;
  const bool aside_;
};

}  // namespace ember::router
