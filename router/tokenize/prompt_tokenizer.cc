#include "router/tokenize/prompt_tokenizer.h"

#include <utility>

#include "router/tokenize/prompt_api.h"
#include "router/tokenize/text_chunks.h"

namespace ember::router {
namespace {

namespace asio = boost::asio;

constexpr std::array<const char*, 4> kSourceNames = {"local", "agent", "engine", "text"};

}  // namespace

PromptTokenizer::PromptTokenizer(const ReplicaSet& replicas, AgentClient& agents,
                                 http::UpstreamPool& pool, MetricsRegistry& metrics,
                                 PromptTokenizerOptions options)
    : replicas_(replicas),
      options_(std::move(options)),
      local_(metrics, options_.local),
      engine_(replicas, agents, metrics, options_.engine),
      endpoint_(pool),
      endpoint_answers_(options_.engine.cache_bytes) {
  for (size_t i = 0; i < by_source_.size(); ++i) {
    by_source_[i] = &metrics.AddCounter("ember_router_tokenize_total",
                                        "Prompts by where their tokens came from",
                                        {{"source", kSourceNames[i]}});
  }
  for (size_t i = 1; i < by_reason_.size(); ++i) {
    by_reason_[i] =
        &metrics.AddCounter("ember_router_tokenize_local_failures_total",
                            "Prompts that were not tokenized in process, by reason",
                            {{"reason", PromptReasonName(static_cast<PromptReason>(i))}});
  }
}

Result<SharedPrompt> PromptTokenizer::Count(SharedPrompt prompt) {
  by_source_[static_cast<size_t>(prompt->source)]->Add();
  return prompt;
}

asio::awaitable<SharedPrompt> PromptTokenizer::AskEndpoint(std::string_view path,
                                                           std::string_view body) {
  const ReplicaSet::Member* best = nullptr;
  for (const ReplicaNumber n : replicas_.numbers()) {
    const ReplicaSet::Member& m = replicas_.at(n);
    if (m.view.healthy && (best == nullptr || m.under_way() < best->under_way())) best = &m;
  }
  if (best == nullptr || body.size() > options_.engine.max_body_bytes) co_return nullptr;
  const Checksum digest = PromptCache::DigestOf(path, body);
  if (SharedPrompt known = endpoint_answers_.Find(digest)) co_return known;
  PromptOutline outline;
  const std::optional<PromptApi> api = PromptApiOf(path);
  if (!api || PromptOutline::Of(*api, body, 0, &outline, 0) != PromptReason::kNone)
    co_return nullptr;
  const std::shared_ptr<const Endpoint> endpoint = best->endpoint;
  auto tokens = co_await endpoint_.Tokenize(endpoint->config, *api, body, options_.engine.deadline);
  if (!tokens.ok()) co_return nullptr;
  auto prompt = std::make_shared<TokenizedPrompt>();
  prompt->source = TokenSource::kEngine;
  prompt->model = std::move(outline.model);
  prompt->salt = std::move(outline.salt);
  prompt->token_count = static_cast<uint32_t>(tokens->size());
  prompt->tokens = *std::move(tokens);
  endpoint_answers_.Put(digest, prompt);
  co_return prompt;
}

asio::awaitable<Result<SharedPrompt>> PromptTokenizer::Tokenize(std::string_view path,
                                                                std::string_view body) {
  if (!local_.models().empty()) {
    LocalTokenizer::Answer answer = co_await local_.Tokenize(path, body);
    if (answer.prompt != nullptr) co_return Count(std::move(answer.prompt));
    by_reason_[static_cast<size_t>(answer.reason)]->Add();
    if (answer.reason == PromptReason::kTooShort) {
      co_return InvalidError("too short to be worth a match");
    }
    if (answer.reason == PromptReason::kDistrusted && options_.endpoints) {
      if (SharedPrompt prompt = co_await AskEndpoint(path, body))
        co_return Count(std::move(prompt));
    }
  }
  Result<SharedPrompt> asked = co_await engine_.Tokenize(path, body);
  if (asked.ok()) co_return Count(*std::move(asked));
  if (options_.text && body.size() >= options_.text_min_bytes) {
    const std::optional<PromptApi> api = PromptApiOf(path);
    SharedPrompt prompt = api ? TextChunksOf(*api, body) : nullptr;
    if (prompt != nullptr) co_return Count(std::move(prompt));
  }
  co_return asked.status();
}

}  // namespace ember::router
