#include "router/tokenize/engine_endpoint.h"

#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "client/http/json_writer.h"

namespace ember::router {
namespace {

namespace asio = boost::asio;
using simdjson::dom::element;

constexpr size_t kMaxReply = 4u << 20;  // parsed on the loop, which waits for some milliseconds
constexpr int64_t kMaxToken = INT32_MAX;

// The array "tokens" of a reply; empty when there is none.
std::vector<TokenId> TokensIn(const std::string& reply) {
  simdjson::dom::parser parser;
  simdjson::dom::array tokens;
  std::vector<TokenId> out;
  if (parser.parse(reply)["tokens"].get(tokens) != simdjson::SUCCESS) return out;
  for (const element token : tokens) {
    int64_t id = 0;
    if (token.get(id) != simdjson::SUCCESS || id < 0 || id > kMaxToken) return {};
    out.push_back(static_cast<TokenId>(id));
  }
  return out;
}

std::string TextIn(const std::string& reply, const char* member) {
  simdjson::dom::parser parser;
  std::string_view text;
  return parser.parse(reply)[member].get(text) == simdjson::SUCCESS ? std::string(text) : "";
}

}  // namespace

asio::awaitable<Result<std::string>> EngineEndpoint::Ask(const ReplicaConfig& replica,
                                                         const char* target, std::string_view body,
                                                         Duration deadline,
                                                         http::Cancellation* stop) {
  http::ExchangeOptions options;
  options.deadline = deadline;
  options.aside = aside_;
  options.cancellation = stop;
  http::UpstreamRequest request{.method = body.empty() ? "GET" : "POST",
                                .target = target,
                                .headers = {},
                                .host = replica.host,
                                .body = body};
  if (!replica.key.empty()) request.headers.Add("Authorization", "Bearer " + replica.key);
  auto reply = co_await pool_.Call(replica.http, std::move(request), options, kMaxReply);
  if (!reply.ok()) co_return reply.status();
  if (reply->status != 200) {
    co_return InvalidError(std::string(target) + " said " + std::to_string(reply->status));
  }
  co_return std::move(reply->body);
}

asio::awaitable<Result<std::vector<TokenId>>> EngineEndpoint::Tokenize(const ReplicaConfig& replica,
                                                                       PromptApi api,
                                                                       std::string_view body,
                                                                       Duration deadline,
                                                                       http::Cancellation* stop) {
  if (api != PromptApi::kChat && api != PromptApi::kCompletion) {
    co_return InvalidError("engines tokenize chats and completions only");
  }
  const TimePoint end = SteadyClock().Now() + deadline;
  const auto left = [end] {
    return std::max<Duration>(end - SteadyClock().Now(), milliseconds(1));
  };
  auto reply = co_await Ask(replica, "/tokenize", body, deadline, stop);
  if (!reply.ok() && reply.status().code() != StatusCode::kInvalid) co_return reply.status();
  std::vector<TokenId> tokens;
  if (reply.ok()) tokens = TokensIn(*reply);
  if (!tokens.empty()) co_return tokens;
  if (api != PromptApi::kChat) co_return InvalidError("/tokenize gives no tokens");
  auto applied = co_await Ask(replica, "/apply-template", body, left(), stop);
  if (!applied.ok()) co_return applied.status();
  const std::string text = "{\"content\":" + http::JsonString(TextIn(*applied, "prompt")) +
                           ",\"add_special\":true,\"parse_special\":true}";
  reply = co_await Ask(replica, "/tokenize", text, left(), stop);
  if (!reply.ok()) co_return reply.status();
  tokens = TokensIn(*reply);
  if (tokens.empty()) co_return InvalidError("/tokenize gives no tokens");
  co_return tokens;
}

}  // namespace ember::router
