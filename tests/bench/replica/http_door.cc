#include "tests/bench/replica/http_door.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <charconv>
#include <thread>

namespace ember::bench {
namespace {

namespace asio = boost::asio;
using http::ResponseWriter;

Duration TokensMs(const sim::EngineShape& shape, uint64_t tokens) {
  return Duration(static_cast<int64_t>(shape.token_ms * static_cast<double>(tokens) * 1e6));
}

http::ResponseHead HeadOf(const Engine::Work& work, std::string type) {
  const Route route = work.loaded_tokens > 0   ? Route::kRemote
                      : work.cached_tokens > 0 ? Route::kLocal
                                               : Route::kRecompute;
  return {.status = 200,
          .headers = {{"Content-Type", std::move(type)},
                      {"x-ember-route", RouteName(route)},
                      {"x-ember-cached-tokens", std::to_string(work.cached_tokens)}}};
}

std::string UsageOf(const Prompt& prompt, const Engine::Work& work) {
  return fmt::format(R"("usage":{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)"
                     R"("prompt_tokens_details":{{"cached_tokens":{}}}}})",
                     prompt.tokens, prompt.output_tokens, prompt.tokens + prompt.output_tokens,
                     work.cached_tokens);
}

// What every object of a reply begins with.
std::string BeginningOf(const std::string& id, std::string_view object, size_t replica) {
  return fmt::format(
      R"({{"id":"{}","object":"{}","created":1,"model":"fake","system_fingerprint":"r{}",)"
      R"("choices":[)",
      id, object, replica);
}

}  // namespace

Status HttpDoor::Listen() {
  http::HttpServerOptions options;
  options.port = port_;
  auto server = http::HttpServer::Listen(
      loop_, options,
      [this](http::Request& request, ResponseWriter& writer) { return Answer(request, writer); });
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  return OkStatus();
}

void HttpDoor::Kill(Duration down) {
  replica_.Die();
  // A server waits for its connections' ends when it is stopped, and they need the loop for that.
  std::thread([this, down] {
    server_->Stop(Duration::zero());
    loop_.Spawn(Revive(down));
  }).detach();
}

asio::awaitable<void> HttpDoor::Revive(Duration down) {
  (void)co_await http::SleepFor(down, nullptr);
  if (const Status again = Listen(); !again.ok()) {
    spdlog::error("r{}: {}", replica_.number(), again.ToString());
  }
  replica_.Revive();
}

asio::awaitable<void> HttpDoor::Answer(http::Request& request, ResponseWriter& writer) {
  if (!replica_.alive()) co_return writer.Abort();
  const std::string& path = request.path;
  if (path == "/v1/chat/completions" || path == "/v1/completions") {
    co_return co_await Infer(request, writer);
  }
  Status sent;
  if (path == "/health") {
    sent = co_await writer.SendJson(200, "{}");
  } else if (path == "/metrics") {
    http::ResponseHead head{.status = 200, .headers = {{"Content-Type", "text/plain"}}};
    sent = co_await writer.Send(std::move(head), Metrics());
  } else if (path == "/admin/reset") {
    reset_();
    sent = co_await writer.SendJson(200, "{}");
  } else if (path == "/admin/kill") {
    const std::string_view text = request.QueryParam("down_ms").value_or("0");
    uint32_t down_ms = 0;
    std::from_chars(text.data(), text.data() + text.size(), down_ms);
    sent = co_await writer.SendJson(200, "{}");
    Kill(milliseconds(down_ms));
  } else {
    sent = co_await writer.SendError(http::OpenAiError::ForHttpStatus(404, "Not Found"));
  }
}

asio::awaitable<void> HttpDoor::Infer(http::Request& request, ResponseWriter& writer) {
  Result<Prompt> read = Prompt::Of(request.path, request.body);
  if (!read.ok()) {
    (void)co_await writer.SendError(http::OpenAiError::FromStatus(read.status()));
    co_return;
  }
  const auto prompt = std::make_shared<const Prompt>(*std::move(read));
  const uint64_t life = replica_.life();
  const auto work = co_await replica_.Compute(prompt);
  if (!work) co_return writer.Abort();
  const std::string id =
      fmt::format("cmpl-{}-{}", replica_.number(), replica_.counts().first_tokens);
  const Status sent = prompt->stream ? co_await Stream(*prompt, id, *work, writer)
                                     : co_await Whole(*prompt, id, *work, writer);
  if (replica_.life() == life) replica_.Finish(*prompt);
  if (!sent.ok() && !writer.finished()) writer.Abort();
}

asio::awaitable<Status> HttpDoor::Stream(const Prompt& prompt, const std::string& id,
                                         const Engine::Work& work, ResponseWriter& writer) {
  const sim::EngineShape& shape = replica_.engine().shape();
  const std::string beginning =
      "data: " +
      BeginningOf(id, prompt.chat ? "chat.completion.chunk" : "text_completion", replica_.number());
  const uint64_t out = prompt.output_tokens;
  for (uint64_t n = 0; n < out;) {
    const uint64_t tokens = n == 0 ? 1 : std::min<uint64_t>(shape.chunk_tokens, out - n);
    const std::string text = AnswerOf(tokens);
    const std::string_view reason = n + tokens >= out ? R"("stop")" : "null";
    const std::string event =
        beginning +
        (prompt.chat
             ? fmt::format(R"({{"index":0,"delta":{{"role":"assistant","content":"{}"}},)", text)
             : fmt::format(R"({{"index":0,"text":"{}",)", text)) +
        fmt::format("\"finish_reason\":{}}}]}}\n\n", reason);
    EMBER_CO_RETURN_IF_ERROR(
        n == 0 ? co_await writer.Begin(HeadOf(work, "text/event-stream; charset=utf-8"), {}, event)
               : co_await writer.Write(event));
    n += tokens;
    if (n < out) {
      EMBER_CO_RETURN_IF_ERROR(co_await http::SleepFor(TokensMs(shape, tokens), &writer.gone()));
    }
  }
  const std::string end = beginning + "]," + UsageOf(prompt, work) + "}\n\ndata: [DONE]\n\n";
  EMBER_CO_RETURN_IF_ERROR(co_await writer.Write(end));
  co_return co_await writer.End();
}

asio::awaitable<Status> HttpDoor::Whole(const Prompt& prompt, const std::string& id,
                                        const Engine::Work& work, ResponseWriter& writer) {
  const sim::EngineShape& shape = replica_.engine().shape();
  EMBER_CO_RETURN_IF_ERROR(
      co_await http::SleepFor(TokensMs(shape, prompt.output_tokens), &writer.gone()));
  const std::string text = AnswerOf(prompt.output_tokens);
  const std::string choice =
      prompt.chat
          ? fmt::format(R"({{"index":0,"message":{{"role":"assistant","content":"{}"}},)", text)
          : fmt::format(R"({{"index":0,"text":"{}",)", text);
  co_return co_await writer.Send(
      HeadOf(work, "application/json"),
      BeginningOf(id, prompt.chat ? "chat.completion" : "text_completion", replica_.number()) +
          choice + R"("logprobs":null,"finish_reason":"stop"}],)" + UsageOf(prompt, work) + "}");
}

std::string HttpDoor::Metrics() const {
  const Engine& engine = replica_.engine();
  const Replica::Counts& counts = replica_.counts();
  const auto waiting = static_cast<double>(replica_.waiting());
  const auto running = static_cast<double>(replica_.running());
  std::string out;
  const auto add = [&](std::string_view name, std::string_view type, auto value) {
    out += fmt::format("# TYPE {0} {1}\n{0}{{engine=\"0\",model_name=\"fake\"}} {2}\n", name, type,
                       value);
  };
  add("vllm:num_requests_running", "gauge", running);
  add("vllm:num_requests_waiting", "gauge", waiting);
  add("vllm:kv_cache_usage_perc", "gauge", std::min(1.0, (running + waiting) / 64));
  add("vllm:prefix_cache_queries_total", "counter", counts.prompt_tokens);
  add("vllm:prefix_cache_hits_total", "counter", counts.cached_tokens);
  add("vllm:prompt_tokens_total", "counter", counts.prompt_tokens);
  add("vllm:generation_tokens_total", "counter", counts.output_tokens);
  add("vllm:request_success_total", "counter", counts.requests);
  add("vllm:time_to_first_token_seconds_sum", "counter", counts.ttft_seconds);
  add("vllm:time_to_first_token_seconds_count", "counter", counts.first_tokens);
  add("fake:loaded_tokens_total", "counter", counts.loaded_tokens);
  add("fake:loads_hinted_total", "counter", counts.hints);
  out += fmt::format(
      "# TYPE vllm:cache_config_info gauge\n"
      "vllm:cache_config_info{{block_size=\"{}\",num_gpu_blocks=\"{}\"}} 1\n",
      kTokensPerBlock, engine.shape().cache_blocks);
  return out;
}

}  // namespace ember::bench
