// PromptTokenizer: the tokens of a request's prompt exactly as the engine will see them, by asking
// the engine: /apply-template for a chat, then /tokenize. The last answers are kept, and who asks
// for what is being asked waits for that answer, so that a router's question or hint and the
// request itself cost one.
//
// Concurrency: coroutines of the HTTP loop. Life: the engine client must outlive it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "client/agent/engine_client.h"
#include "client/agent/request_body.h"
#include "client/http/cancellation.h"
#include "proto/model/kv_namespace.h"

namespace ember::agent {

class PromptTokenizer {
 public:
  using Tokens = std::shared_ptr<const std::vector<TokenId>>;

  explicit PromptTokenizer(EngineClient& engine) : engine_(engine) {}

  // `request` is what ReadRequestBody made of `body`, without a bypass.
  boost::asio::awaitable<Result<Tokens>> Tokenize(const RequestBody& request,
                                                  std::string_view body);
  // After the engine came back it may be another one.
  void Forget();

 private:
  static constexpr size_t kMaxEntries = 256;
  static constexpr size_t kMaxTokens = 4u << 20;  // of all entries together

  struct Entry {
    Sha256Digest key;
    Tokens tokens;
  };
  struct Question {
    http::Cancellation answered;
    std::optional<Result<Tokens>> tokens;
  };
  boost::asio::awaitable<Result<Tokens>> Ask(const RequestBody& request, std::string_view body);
  void Remember(const Sha256Digest& key, Tokens tokens);

  EngineClient& engine_;
  std::list<Entry> entries_;  // most recently used first
  std::map<Sha256Digest, std::list<Entry>::iterator> by_key_;
  std::map<Sha256Digest, std::shared_ptr<Question>> asked_;  // not answered yet
  size_t kept_tokens_ = 0;
  uint64_t epoch_ = 0;
};

}  // namespace ember::agent
