// Tokenizer: an OpenAI request as the chain of its prompt's blocks.
//
// Concurrency: the router's loop thread. A failure is ordinary: the caller then routes by load.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/status.h"
#include "proto/model/block_hash.h"

namespace ember::router {

struct TokenizedPrompt {
  uint32_t token_count = 0;
  NamespaceId ns;
  std::vector<BlockHash> chain;  // the whole blocks
};

using SharedPrompt = std::shared_ptr<const TokenizedPrompt>;

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // `path` and `body` as received; both stay valid until the coroutine ends. kInvalid: no prompt
  // can be made of the body. kNoSpace: the body is too large to be asked about. kUnavailable,
  // kDeadline: nobody answered.
  virtual boost::asio::awaitable<Result<SharedPrompt>> Tokenize(std::string_view path,
                                                                std::string_view body) = 0;
  // A replica's identity changed, so that earlier answers name nothing any more.
  virtual void Forget() {}
};

}  // namespace ember::router
