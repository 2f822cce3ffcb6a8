#include "router/tokenize/prompt_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "client/http/json_writer.h"
#include "router/tokenize/prompt_api.h"
#include "router/tokenize/text_chunks.h"

namespace ember::router {
namespace {

namespace asio = boost::asio;

constexpr uint32_t kMinIds = 16;           // a block's
constexpr int kSilentAfter = 4;            // an engine without /tokenize is asked in vain so often
constexpr Duration kSilence = seconds(5);  // and then not for this long

Status Truncated() { return InvalidError("the engine leaves out some of the prompt"); }

}  // namespace

PromptTokenizer::PromptTokenizer(const ReplicaSet& replicas, AgentClient& agents,
                                 http::UpstreamPool& pool, MetricsRegistry& metrics,
                                 PromptTokenizerOptions options)
    : replicas_(replicas),
      options_(std::move(options)),
      local_(metrics, options_.local, &replicas.models()),
      engine_(replicas, agents, metrics, options_.engine),
      endpoint_(pool),
      endpoint_answers_(options_.engine.cache_bytes) {
  for (size_t i = 0; i < by_source_.size(); ++i) {
    by_source_[i] = &metrics.AddCounter("ember_router_tokenize_total",
                                        "Prompts by where their tokens came from",
                                        {{"source", TokenSourceName(static_cast<TokenSource>(i))}});
  }
  for (size_t i = 1; i < by_reason_.size(); ++i) {
    by_reason_[i] =
        &metrics.AddCounter("ember_router_tokenize_local_failures_total",
                            "Prompts that were not tokenized in process, by reason",
                            {{"reason", PromptReasonName(static_cast<PromptReason>(i))}});
  }
}

TokenizerReport PromptTokenizer::Report() const {
  TokenizerReport report = local_.Report();
  for (size_t i = 0; i < by_source_.size(); ++i) report.prompts[i] = by_source_[i]->value();
  return report;
}

Result<SharedPrompt> PromptTokenizer::Count(SharedPrompt prompt) {
  by_source_[static_cast<size_t>(prompt->source)]->Add();
  return prompt;
}

const ReplicaSet::Member* PromptTokenizer::WhomToAsk(std::string_view model, Asked whom) const {
  const ReplicaSet::Member* best = nullptr;
  const MemberSet takers = replicas_.TakersOf(model) & replicas_.usable();
  const TimePoint now = SteadyClock().Now();
  for (const ReplicaNumber n : replicas_.numbers()) {
    const ReplicaSet::Member& m = replicas_.at(n);
    if (whom == Asked::kPublishers && m.config.events.empty()) continue;
    if (!takers.test(n) || (best != nullptr && m.under_way() >= best->under_way())) continue;
    const auto silence = silences_.find(m.config.id);
    if (silence == silences_.end() || silence->second.until <= now) best = &m;
  }
  return best;
}

bool PromptTokenizer::EventsArePublished() const {
  const auto& numbers = replicas_.numbers();
  return std::any_of(numbers.begin(), numbers.end(),
                     [this](ReplicaNumber n) { return !replicas_.at(n).config.events.empty(); });
}

void PromptTokenizer::NameAdapter(TokenizedPrompt* prompt) const {
  prompt->SetAdapter(replicas_.models().AdapterOf(prompt->model, prompt->lora_path));
}

asio::awaitable<SharedPrompt> PromptTokenizer::ReadText(PromptApi api, std::string_view body) {
  std::shared_ptr<TokenizedPrompt> prompt;
  const auto read = [&prompt, api, body] { prompt = TextChunksOf(api, body); };
  if (body.size() <= LocalTokenizer::kLargeBody) {
    read();
  } else {
    co_await local_.OnThread(read);
  }
  if (prompt != nullptr) NameAdapter(prompt.get());
  co_return prompt;
}

asio::awaitable<Result<SharedPrompt>> PromptTokenizer::AskEndpoint(std::string_view path,
                                                                   std::string_view body,
                                                                   Asked whom, TimePoint end) {
  const std::optional<PromptApi> api = PromptApiOf(path);
  // Engines tokenize nothing else.
  if (api != PromptApi::kChat && api != PromptApi::kCompletion) co_return SharedPrompt();
  // It is read on the loop; nor would an engine have done with more in time.
  if (body.size() > std::min(options_.engine.max_body_bytes, LocalTokenizer::kLargeBody)) {
    co_return SharedPrompt();
  }
  const Checksum digest = PromptCache::DigestOf(path, body);
  if (SharedPrompt known = endpoint_answers_.Find(digest)) co_return known;
  PromptOutline outline;
  if (PromptOutline::Of(*api, body, 0, &outline, 0) != PromptReason::kNone ||
      !outline.ids.empty()) {
    co_return SharedPrompt();
  }
  const ReplicaSet::Member* const best = WhomToAsk(outline.model, whom);
  const Duration left = end - SteadyClock().Now();
  if (best == nullptr || left <= Duration::zero()) co_return SharedPrompt();
  const std::shared_ptr<const Endpoint> endpoint = best->endpoint;
  std::string first;  // engines take one prompt, as a text
  if (*api == PromptApi::kCompletion && !outline.slots.empty()) {
    const std::string model =
        outline.model.empty() ? "" : "\"model\":" + http::JsonString(outline.model) + ",";
    first = fmt::format(R"({{{}"prompt":"{}","add_special_tokens":{}}})", model,
                        outline.slots.front(), outline.add_special_tokens);
    body = first;
  }
  auto tokens = co_await endpoint_.Tokenize(endpoint->config, *api, body, left);
  if (silences_.size() > kMaxReplicas) silences_.clear();
  Silence& silence = silences_[endpoint->config.id];
  silence.failures = tokens.ok() ? 0 : silence.failures + 1;
  if (silence.failures >= kSilentAfter) silence.until = SteadyClock().Now() + kSilence;
  if (!tokens.ok()) co_return SharedPrompt();
  if (tokens->size() > outline.most_tokens) co_return Truncated();
  auto prompt = std::make_shared<TokenizedPrompt>();
  prompt->source = TokenSource::kEngine;
  prompt->model = std::move(outline.model);
  prompt->lora_path = std::move(outline.lora_path);
  prompt->salt = std::move(outline.salt);
  prompt->prompt_logprobs = outline.prompt_logprobs;
  prompt->several = outline.several;
  prompt->doubtful = outline.doubtful;
  prompt->token_count = static_cast<uint32_t>(tokens->size());
  prompt->tokens = *std::move(tokens);
  NameAdapter(prompt.get());
  endpoint_answers_.Put(digest, prompt);
  co_return SharedPrompt(std::move(prompt));
}

asio::awaitable<Result<SharedPrompt>> PromptTokenizer::Tokenize(std::string_view path,
                                                                std::string_view body) {
  const std::optional<PromptApi> api = PromptApiOf(path);
  // Ids cost nothing to read, however few they are.
  if (api == PromptApi::kCompletion && body.size() < options_.text_min_bytes) {
    SharedPrompt prompt = co_await ReadText(*api, body);
    if (prompt != nullptr && prompt->source == TokenSource::kLocal &&
        prompt->token_count >= kMinIds) {
      co_return Count(std::move(prompt));
    }
  }
  bool asked_endpoint = !options_.endpoints;
  std::string in_process;  // why not
  TimePoint end = SteadyClock().Now() + options_.engine.deadline;
  if (!local_.models().empty()) {
    LocalTokenizer::Answer answer = co_await local_.Tokenize(path, body);
    end = SteadyClock().Now() + options_.engine.deadline;
    if (answer.prompt != nullptr) co_return Count(std::move(answer.prompt));
    by_reason_[static_cast<size_t>(answer.reason)]->Add();
    in_process = PromptReasonName(answer.reason);
    if (answer.reason == PromptReason::kTooShort) {
      co_return InvalidError("too short to be worth a match");
    }
    // Others would tell of the whole prompt.
    if (answer.reason == PromptReason::kTruncated) co_return Truncated();
    if (answer.reason == PromptReason::kDistrusted && !asked_endpoint) {
      asked_endpoint = true;
      Result<SharedPrompt> told = co_await AskEndpoint(path, body, Asked::kAny, end);
      if (!told.ok()) co_return told;
      if (*told != nullptr) co_return Count(*std::move(told));
    }
  }
  Result<SharedPrompt> asked = co_await engine_.Tokenize(path, body);
  if (asked.ok()) co_return Count(*std::move(asked));
  if (!asked_endpoint && body.size() >= options_.text_min_bytes && EventsArePublished()) {
    Result<SharedPrompt> told = co_await AskEndpoint(path, body, Asked::kPublishers, end);
    if (!told.ok()) co_return told;
    if (*told != nullptr) co_return Count(*std::move(told));
  }
  if (options_.text && body.size() >= options_.text_min_bytes) {
    SharedPrompt prompt = api ? co_await ReadText(*api, body) : nullptr;
    if (prompt != nullptr) co_return Count(std::move(prompt));
  }
  if (engine_.AnyAgent()) co_return asked.status();
  // Whoever asks why shall not look for agents that were never meant to be.
  std::string why =
      local_.models().empty() ? "there is no --tokenizer" : "in process: " + in_process;
  why += ", no replica has an agent";
  if (body.size() < options_.text_min_bytes) {
    why +=
        fmt::format(", and the text of bodies under {} bytes is not used", options_.text_min_bytes);
  }
  co_return UnavailableError(std::move(why));
}

}  // namespace ember::router
