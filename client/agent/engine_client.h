// EngineClient: the calls to llama-server's HTTP interface that are the agent's own. A client's
// requests do not go through here but through http::Relay.
//
// Concurrency: coroutines of the HTTP loop. Life: the pool must outlive it.
// Errors: kUnavailable: the engine can't be reached or broke the connection. kBusy: it is still
// loading its model. kDeadline. kInvalid: it refused, with its own message. kMismatch and kCorrupt:
// its reply is not what this version of llama-server sends.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "client/agent/engine_reply.h"
#include "client/http/origin.h"
#include "client/http/upstream_pool.h"
#include "proto/base/status.h"
#include "proto/base/time.h"

namespace ember::agent {

class EngineClient {
 public:
  EngineClient(http::UpstreamPool& pool, http::Origin origin)
      : pool_(pool), origin_(std::move(origin)) {}

  boost::asio::awaitable<Status> Health();
  boost::asio::awaitable<Result<EngineProps>> Props();
  boost::asio::awaitable<Result<uint64_t>> ModelBytes();
  boost::asio::awaitable<Result<bool>> HasAdapters();

  // The prompt text that the engine makes of a chat request, tools and all.
  boost::asio::awaitable<Result<std::string>> ApplyTemplate(std::string_view request_body);
  // The tokens that the engine makes of a prompt text.
  boost::asio::awaitable<Result<std::vector<TokenId>>> Tokenize(std::string_view prompt);
  // A completion of one token in that slot, so that the slot holds something.
  boost::asio::awaitable<Status> Probe(uint32_t slot);

  // These wait in the engine until the slot is idle. File names are relative to its slot folder.
  boost::asio::awaitable<Result<SlotAction>> SaveSlot(uint32_t slot, std::string_view file);
  // A failed one leaves the slot in doubt: erase it.
  boost::asio::awaitable<Result<SlotAction>> RestoreSlot(uint32_t slot, std::string_view file);
  boost::asio::awaitable<Status> EraseSlot(uint32_t slot);

  const http::Origin& origin() const { return origin_; }

 private:
  // The body of a 200 reply.
  boost::asio::awaitable<Result<std::string>> Call(const char* method, std::string target,
                                                   std::string_view body, Duration timeout);
  boost::asio::awaitable<Result<SlotAction>> CallSlot(uint32_t slot, const char* action,
                                                      std::string_view file);

  http::UpstreamPool& pool_;
  http::Origin origin_;
};

}  // namespace ember::agent
