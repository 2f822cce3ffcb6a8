#include "client/agent/engine_client.h"

#include "client/http/json_writer.h"

namespace ember::agent {

namespace asio = boost::asio;

namespace {
constexpr Duration kHealthTimeout = seconds(2);
constexpr Duration kCallTimeout = seconds(30);
// Slot actions and probes wait behind the batch that the engine computes just then.
constexpr Duration kSlotTimeout = seconds(120);
constexpr size_t kMaxReplyBytes = 256u << 20;

std::string SlotTarget(uint32_t slot, const char* action) {
  return "/slots/" + std::to_string(slot) + "?action=" + action;
}
}  // namespace

asio::awaitable<Result<std::string>> EngineClient::Call(const char* method, std::string target,
                                                        std::string_view body, Duration timeout) {
  http::UpstreamRequest request;
  request.method = method;
  request.target = std::move(target);
  request.body = body;
  const std::string name = request.target;
  http::ExchangeOptions options;
  options.deadline = timeout;
  Result<http::CallReply> reply =
      co_await pool_.Call(origin_, std::move(request), options, kMaxReplyBytes);
  if (!reply.ok()) co_return reply.status().WithContext("engine " + name);
  if (reply->status == 200) co_return std::move(reply->body);
  const std::string message =
      "engine " + name + ": " + std::to_string(reply->status) + " " + ReadErrorMessage(reply->body);
  co_return reply->status == 503 ? BusyError(message) : InvalidError(message);
}

asio::awaitable<Status> EngineClient::Health() {
  auto reply = co_await Call("GET", "/health", {}, kHealthTimeout);
  co_return reply.status();
}

asio::awaitable<Result<EngineProps>> EngineClient::Props() {
  auto reply = co_await Call("GET", "/props", {}, kCallTimeout);
  if (!reply.ok()) co_return reply.status();
  co_return ReadProps(*reply);
}

asio::awaitable<Result<uint64_t>> EngineClient::ModelBytes() {
  auto reply = co_await Call("GET", "/v1/models", {}, kCallTimeout);
  if (!reply.ok()) co_return reply.status();
  co_return ReadModelBytes(*reply);
}

asio::awaitable<Result<bool>> EngineClient::HasAdapters() {
  auto reply = co_await Call("GET", "/lora-adapters", {}, kCallTimeout);
  if (!reply.ok()) co_return reply.status();
  co_return ReadHasAdapters(*reply);
}

asio::awaitable<Result<std::string>> EngineClient::ApplyTemplate(std::string_view request_body) {
  auto reply = co_await Call("POST", "/apply-template", request_body, kCallTimeout);
  if (!reply.ok()) co_return reply.status();
  co_return ReadPrompt(*reply);
}

asio::awaitable<Result<std::vector<TokenId>>> EngineClient::Tokenize(std::string_view prompt) {
  std::string body = R"({"add_special":true,"parse_special":true,"content":)";
  http::AppendJsonString(&body, prompt);
  body += '}';
  auto reply = co_await Call("POST", "/tokenize", body, kCallTimeout);
  if (!reply.ok()) co_return reply.status();
  co_return ReadTokens(*reply);
}

asio::awaitable<Status> EngineClient::Probe(uint32_t slot) {
  const std::string body = R"({"prompt":"Hello","n_predict":1,"cache_prompt":false,"id_slot":)" +
                           std::to_string(slot) + "}";
  auto reply = co_await Call("POST", "/completion", body, kSlotTimeout);
  co_return reply.status();
}

asio::awaitable<Result<SlotAction>> EngineClient::CallSlot(uint32_t slot, const char* action,
                                                           std::string_view file) {
  const std::string body = "{\"filename\":" + http::JsonString(file) + "}";
  auto reply = co_await Call("POST", SlotTarget(slot, action), body, kSlotTimeout);
  if (!reply.ok()) co_return reply.status();
  co_return ReadSlotAction(*reply);
}

asio::awaitable<Result<SlotAction>> EngineClient::SaveSlot(uint32_t slot, std::string_view file) {
  return CallSlot(slot, "save", file);
}

asio::awaitable<Result<SlotAction>> EngineClient::RestoreSlot(uint32_t slot,
                                                              std::string_view file) {
  return CallSlot(slot, "restore", file);
}

asio::awaitable<Status> EngineClient::EraseSlot(uint32_t slot) {
  auto reply = co_await Call("POST", SlotTarget(slot, "erase"), "{}", kSlotTimeout);
  co_return reply.status();
}

}  // namespace ember::agent
