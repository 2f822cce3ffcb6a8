#include "router/tokenize/engine_tokenizer.h"

#include <algorithm>
#include <utility>

#include "router/tokenize/request_model.h"

namespace ember::router {
namespace {

namespace asio = boost::asio;

constexpr int kMaxAgentsAsked = 2;

TimePoint Now() { return std::chrono::steady_clock::now(); }

}  // namespace

EngineTokenizer::EngineTokenizer(const ReplicaSet& replicas, AgentClient& agents,
                                 MetricsRegistry& metrics, EngineTokenizerOptions options)
    : replicas_(replicas),
      agents_(agents),
      options_(options),
      cache_(options.cache_bytes),
      metrics_(metrics),
      hits_(metrics.AddCounter("ember_router_tokenize_cache_hits_total",
                               "Prompts whose tokens were known from an equal body")),
      latency_(metrics.AddHistogram("ember_router_tokenize_seconds",
                                    "Time to ask an agent for a prompt's tokens")) {
  // A rate misses the first event of a counter that was not there.
  for (const StatusCode code :
       {StatusCode::kUnavailable, StatusCode::kDeadline, StatusCode::kNoSpace}) {
    FailuresFor(code);
  }
}

bool EngineTokenizer::AnyAgent() const {
  const auto& numbers = replicas_.numbers();
  return std::any_of(numbers.begin(), numbers.end(), [this](ReplicaNumber n) {
    return !replicas_.at(n).config.grpc.empty() || agents_.CanAsk(n);
  });
}

Counter& EngineTokenizer::FailuresFor(StatusCode why) {
  return metrics_.AddCounter("ember_router_tokenize_failures_total",
                             "Prompts routed by load because their tokens were not to be had",
                             {{"reason", std::string(StatusCodeName(why))}});
}

Result<SharedPrompt> EngineTokenizer::Failed(const Status& why) {
  FailuresFor(why.code()).Add();
  return why;
}

asio::awaitable<Result<TokenizedPrompt>> EngineTokenizer::Ask(std::string_view path,
                                                              std::string_view body) {
  const TimePoint deadline = Now() + options_.deadline;
  std::string model = ModelOfJson(body);
  const MemberSet takers = replicas_.TakersOf(model);
  Status last = UnavailableError("no replica with an agent is usable");
  const ReplicaSet::Member* asked = nullptr;
  for (int i = 0; i < kMaxAgentsAsked; ++i) {
    const ReplicaSet::Member* best = nullptr;
    for (const ReplicaNumber n : replicas_.numbers()) {
      const ReplicaSet::Member& m = replicas_.at(n);
      if (!m.view.healthy || &m == asked || !takers.test(n) || !agents_.CanAsk(n)) continue;
      if (best == nullptr || m.under_way() < best->under_way()) best = &m;
    }
    if (best == nullptr) break;
    asked = best;
    auto answer = co_await agents_.Tokenize(best->number, path, body, deadline - Now());
    if (answer.ok()) {
      answer->lora_path = LoraPathOfJson(body);
      answer->SetAdapter(replicas_.models().AdapterOf(model, answer->lora_path));
      // Agents name blocks of their base model.
      if (!answer->adapter.empty() && !answer->has_tokens()) {
        co_return InvalidError("an adapter's prompt, without its tokens");
      }
      answer->model = std::move(model);
      co_return answer;
    }
    last = answer.status();
    if (last.code() != StatusCode::kUnavailable || Now() >= deadline) break;
  }
  co_return last;
}

asio::awaitable<Result<SharedPrompt>> EngineTokenizer::Tokenize(std::string_view path,
                                                                std::string_view body) {
  if (body.size() > options_.max_body_bytes) {
    co_return Failed(NoSpaceError("the body is too large to be tokenized"));
  }
  const Checksum digest = PromptCache::DigestOf(path, body);
  if (SharedPrompt known = cache_.Find(digest)) {
    hits_.Add();
    co_return known;
  }
  const TimePoint start = Now();
  auto answer = co_await Ask(path, body);
  latency_.Observe(std::chrono::duration<double>(Now() - start).count());
  if (!answer.ok()) co_return Failed(answer.status());
  auto prompt = std::make_shared<const TokenizedPrompt>(*std::move(answer));
  cache_.Put(digest, prompt);
  co_return SharedPrompt(std::move(prompt));
}

}  // namespace ember::router
