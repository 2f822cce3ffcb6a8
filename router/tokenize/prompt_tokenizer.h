// PromptTokenizer: whoever knows a prompt's tokens best: the tokenizer in process, else an engine
// by its replica's agent, else an engine's own endpoint, else the prompt's text itself. What was
// used is counted, and every reason why something better was not.
//
// Concurrency: the router's loop thread. Life: destroy it after the loop has stopped.
#pragma once

#include <array>
#include <map>
#include <string>

#include "router/tokenize/engine_endpoint.h"
#include "router/tokenize/engine_tokenizer.h"
#include "router/tokenize/local_tokenizer.h"

namespace ember::router {

struct PromptTokenizerOptions {
  LocalTokenizerOptions local;
  EngineTokenizerOptions engine;
  // Ask an engine's /tokenize where our own tokenizer is not trusted, or there is none and engines
  // publish events, which speak of their tokens.
  bool endpoints = true;
  bool text = true;              // the last resort
  size_t text_min_bytes = 1024;  // shorter prompts need none
};

class PromptTokenizer final : public Tokenizer {
 public:
  // All must outlive it.
  PromptTokenizer(const ReplicaSet& replicas, AgentClient& agents, http::UpstreamPool& pool,
                  MetricsRegistry& metrics, PromptTokenizerOptions options);

  // Loads what the options name; kInvalid says which tokenizer can't be used. Before the loop.
  Status Load() { return local_.Load(); }
  boost::asio::awaitable<Result<SharedPrompt>> Tokenize(std::string_view path,
                                                        std::string_view body) override;
  boost::asio::awaitable<void> Aside(std::function<void()> job) override {
    return local_.Aside(std::move(job));
  }
  void Forget() override {
    engine_.Forget();
    endpoint_answers_.Clear();
  }
  LocalTokenizer& local() { return local_; }
  TokenizerReport Report() const;

 private:
  // Of the replicas that serve a prompt's model.
  enum class Asked : uint8_t { kAny, kPublishers };

  Result<SharedPrompt> Count(SharedPrompt prompt);
  // The prompt's model is known to be an adapter: then it has its name.
  void NameAdapter(TokenizedPrompt* prompt) const;
  // Null: nobody knows, or not until `end`. An error: the engine leaves out some of the prompt.
  boost::asio::awaitable<Result<SharedPrompt>> AskEndpoint(std::string_view path,
                                                           std::string_view body, Asked whom,
                                                           TimePoint end);
  // As TextChunksOf, adapters named; null also when the thread for large ones is too busy.
  boost::asio::awaitable<SharedPrompt> ReadText(PromptApi api, std::string_view body);
  // The least busy one of these that is not known to be silent; null: none.
  const ReplicaSet::Member* WhomToAsk(std::string_view model, Asked whom) const;
  bool EventsArePublished() const;

  const ReplicaSet& replicas_;
  const PromptTokenizerOptions options_;
  LocalTokenizer local_;
  EngineTokenizer engine_;
  EngineEndpoint endpoint_;
  PromptCache endpoint_answers_;
  struct Silence {
    int failures = 0;  // in a row
    TimePoint until;   // not asked before
  };
  std::map<std::string, Silence> silences_;  // by replica
  std::array<Counter*, kTokenSources> by_source_{};
  std::array<Counter*, kPromptReasons> by_reason_{};
};

}  // namespace ember::router
