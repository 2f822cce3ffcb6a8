// PromptTokenizer: whoever knows a prompt's tokens best: the tokenizer in process, else an engine
// by its replica's agent, else an engine's own endpoint, else the prompt's text itself. What was
// used is counted, and every reason why something better was not.
//
// Concurrency: the router's loop thread. Life: destroy it after the loop has stopped.
#pragma once

#include <array>

#include "router/tokenize/engine_endpoint.h"
#include "router/tokenize/engine_tokenizer.h"
#include "router/tokenize/local_tokenizer.h"

namespace ember::router {

struct PromptTokenizerOptions {
  LocalTokenizerOptions local;
  EngineTokenizerOptions engine;
  bool endpoints = true;  // ask an engine's /tokenize for models that have a tokenizer of ours
                          // which is not trusted
  bool text = true;       // the last resort
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
  void Forget() override { engine_.Forget(); }
  LocalTokenizer& local() { return local_; }

 private:
  Result<SharedPrompt> Count(SharedPrompt prompt);
  boost::asio::awaitable<SharedPrompt> AskEndpoint(std::string_view path, std::string_view body);

  const ReplicaSet& replicas_;
  const PromptTokenizerOptions options_;
  LocalTokenizer local_;
  EngineTokenizer engine_;
  EngineEndpoint endpoint_;
  PromptCache endpoint_answers_;
  std::array<Counter*, 4> by_source_{};
  std::array<Counter*, kPromptReasons> by_reason_{};
};

}  // namespace ember::router
