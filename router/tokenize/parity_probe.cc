#include "router/tokenize/parity_probe.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <utility>

#include "client/http/cancellation.h"
#include "client/http/json_writer.h"

namespace ember::router {
namespace {

namespace asio = boost::asio;

struct ParityQuestion {
  PromptApi api;
  const char* path;
  std::string_view members;  // after the model
};

// What differs between tokenizers and templates that are nearly the same one.
constexpr std::array<ParityQuestion, 7> kQuestions = {{
    {PromptApi::kChat, "/v1/chat/completions",
     R"("messages":[{"role":"user","content":"Hello, who are you?"}])"},
    {PromptApi::kChat, "/v1/chat/completions",
     R"("messages":[{"role":"system","content":"You are brief.\nAnswer in French.  "},{"role":"user","content":" What's 12345 + 678.9?\n\n\tThanks!"},{"role":"assistant","content":"13023,9."},{"role":"user","content":"And now?"}])"},
    {PromptApi::kChat, "/v1/chat/completions",
     R"("messages":[{"role":"user","content":"你好，世界。日本語のテキスト 한국어 Привет мир العربية हिन्दी ภาษาไทย e\u0301 \ud83d\ude00\u200d"}])"},
    {PromptApi::kChat, "/v1/chat/completions",
     R"("messages":[{"role":"user","content":[{"type":"text","text":"def f(x):\n    return x  # ok\r\n"},{"type":"text","text":"Explain <b>this</b> && that."}]}])"},
    {PromptApi::kChat, "/v1/chat/completions",
     R"("messages":[{"role":"user","content":"Weather?"}],"tools":[{"type":"function","function":{"name":"weather","description":"The weather","parameters":{"type":"object","properties":{"place":{"type":"string"}},"required":["place"]}}}])"},
    {PromptApi::kChat, "/v1/chat/completions",
     R"("messages":[{"role":"user","content":"Say A."},{"role":"assistant","content":"A is"}],"add_generation_prompt":false,"continue_final_message":true)"},
    {PromptApi::kCompletion, "/v1/completions",
     R"("prompt":"Once upon a time, in 2026,\n  there was a café.")"},
}};

}  // namespace

ParityProbe::ParityProbe(http::HttpLoop& loop, http::UpstreamPool& pool, ReplicaSet& replicas,
                         LocalTokenizer& local, MetricsRegistry& metrics,
                         ParityProbeOptions options)
    : loop_(loop),
      replicas_(replicas),
      local_(local),
      engine_(pool, /*aside=*/true),
      options_(options),
      equal_(metrics.AddCounter("ember_router_token_parity_total",
                                "Comparisons of our tokens with an engine's own",
                                {{"equal", "yes"}})),
      different_(metrics.AddCounter("ember_router_token_parity_total",
                                    "Comparisons of our tokens with an engine's own",
                                    {{"equal", "no"}})) {}

void ParityProbe::OnAdded(const Endpoint& endpoint) {
  if (options_.interval == Duration::zero() || local_.models().empty()) return;
  auto stop = std::make_shared<http::Cancellation>();
  watches_[&endpoint] = stop;
  loop_.Spawn(Watch(replicas_.at(endpoint.members.front()).endpoint, std::move(stop)));
}

void ParityProbe::OnRemoved(const Endpoint& endpoint) {
  const auto watch = watches_.find(&endpoint);
  if (watch == watches_.end()) return;
  watch->second->Cancel();
  watches_.erase(watch);
  Forget(endpoint.config.id, {});
}

void ParityProbe::OnModelsChanged(const Endpoint& endpoint) {
  std::set<LoadedModel*> served;
  for (const std::string& model : ModelsOf(endpoint)) served.insert(local_.models().Find(model));
  Forget(endpoint.config.id, served);
}

void ParityProbe::Forget(const std::string& replica, const std::set<LoadedModel*>& but) {
  for (auto& [model, replicas] : differing_) {
    if (but.contains(model) || replicas.erase(replica) == 0 || !replicas.empty()) continue;
    model->trusted = true;
  }
}

std::vector<std::string> ParityProbe::ModelsOf(const Endpoint& endpoint) const {
  std::vector<std::string> models;
  for (const ServedModel& m : replicas_.models().ListOf(endpoint.members.front()).models) {
    if (m.base.empty()) models.push_back(m.name);
  }
  return models;
}

asio::awaitable<void> ParityProbe::Watch(std::shared_ptr<Endpoint> endpoint, Stop stop) {
  for (;;) {
    std::optional<bool> compared;
    if (endpoint->usable()) compared = co_await Compare(*endpoint, stop);
    if (stop->cancelled()) co_return;
    const Duration pause =
        compared ? options_.interval : std::min(options_.retry, options_.interval);
    if (!(co_await http::SleepFor(pause, stop.get())).ok()) co_return;
  }
}

asio::awaitable<std::optional<bool>> ParityProbe::Compare(const Endpoint& endpoint, Stop stop) {
  const ReplicaConfig& replica = endpoint.config;
  std::optional<bool> all;
  for (const std::string& model : ModelsOf(endpoint)) {
    if (local_.models().Find(model) == nullptr) continue;
    const std::optional<bool> equal = co_await CompareModel(replica, model, stop);
    if (!equal || stop->cancelled()) continue;
    const std::vector<std::string> served = ModelsOf(endpoint);
    if (std::find(served.begin(), served.end(), model) == served.end()) continue;
    Judge(replica.id, model, *equal);
    all = all.value_or(true) && *equal;
  }
  co_return all;
}

asio::awaitable<std::optional<bool>> ParityProbe::CompareModel(const ReplicaConfig& replica,
                                                               const std::string& model,
                                                               Stop stop) {
  std::optional<bool> all;
  for (const ParityQuestion& question : kQuestions) {
    const std::string body =
        "{\"model\":" + http::JsonString(model) + "," + std::string(question.members) + "}";
    auto theirs =
        co_await engine_.Tokenize(replica, question.api, body, options_.timeout, stop.get());
    // What an engine refuses (a template without tools, say) says nothing about its tokens.
    if (!theirs.ok()) continue;
    const LocalTokenizer::Answer ours = co_await local_.TokenizeAny(question.path, body);
    if (ours.prompt == nullptr) continue;
    const bool equal = ours.prompt->AllTokens() == *theirs;
    (equal ? equal_ : different_).Add();
    if (!equal) {
      spdlog::debug("replica {}: other tokens for {}", replica.id, body);
    }
    all = all.value_or(true) && equal;
  }
  co_return all;
}

void ParityProbe::Judge(const std::string& replica, const std::string& model, bool equal) {
  LoadedModel* loaded = local_.models().Find(model);
  std::set<std::string>& differing = differing_[loaded];
  if (equal) {
    differing.erase(replica);
  } else if (differing.insert(replica).second) {
    spdlog::warn(
        "replica {}: model \"{}\" has other tokens than the tokenizer that was given for it; "
        "prompts are asked of the engine until they are equal",
        replica, model);
  }
  if (!loaded->trusted && differing.empty()) {
    spdlog::info("model \"{}\": tokens are equal to the engines' again", model);
  }
  loaded->trusted = differing.empty();
  loaded->compared = true;
}

}  // namespace ember::router
