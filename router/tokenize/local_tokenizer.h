// LocalTokenizer: prompts tokenized in process, by the tokenizer and chat template of their model.
//
// A long text's known beginning is looked up (token_cache.h) and only the rest is tokenized: at
// once when it is short, on a thread of its own when it is long. The long texts themselves are not
// copied and no template sees them (prompt_outline.h), unless it looks into texts. Concurrency: the
// router's loop thread, whose executor the answers come back to. Life: destroy it after the loop
// has stopped; its thread ends with it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "proto/base/metrics.h"
#include "proto/base/time.h"
#include "router/fleet/model_directory.h"
#include "router/tokenize/model_registry.h"
#include "router/tokenize/prompt_renderer.h"
#include "router/tokenize/token_cache.h"
#include "router/tokenize/tokenized_prompt.h"
#include "router/tokenize/tokenizer_report.h"

namespace ember::router {

struct LocalTokenizerOptions {
  std::vector<TokenizerConfig> models;
  size_t min_body_bytes = 1024;  // shorter ones are not worth a match
  size_t max_body_bytes = 16u << 20;
  size_t inline_bytes = 8192;       // more new text than this goes to the thread
  size_t max_waiting = 64;          // for the thread
  size_t cache_bytes = 128u << 20;  // of tokens and hashes
  size_t render_cache_bytes = 16u << 20;
  Duration deadline = milliseconds(250);
};

class LocalTokenizer {
 public:
  struct Answer {
    SharedPrompt prompt;  // null: `reason` says why
    PromptReason reason = PromptReason::kNone;
  };

  // `directory` says which models are adapters of which, and must outlive it; null: nobody does.
  LocalTokenizer(MetricsRegistry& metrics, LocalTokenizerOptions options,
                 const ModelDirectory* directory = nullptr);
  ~LocalTokenizer();

  // Loads the tokenizers that the options name; kInvalid says which can't be used. Before the loop.
  Status Load();
  // `path` and `body` stay valid until the coroutine ends, which is at the deadline or soon after.
  boost::asio::awaitable<Answer> Tokenize(std::string_view path, std::string_view body);
  // The same for any length, and for models that are not trusted.
  boost::asio::awaitable<Answer> TokenizeAny(std::string_view path, std::string_view body);

  // Runs `job` on the thread that long texts are tokenized on; false when that has enough to do.
  boost::asio::awaitable<bool> OnThread(std::function<void()> job);
  // Runs it on another one, so that tokenizing and this never wait for each other, and after as
  // long as that takes; the caller bounds how many wait.
  boost::asio::awaitable<void> Aside(std::function<void()> job);
  // More than this of a body takes the loop too long to be read through there.
  static constexpr size_t kLargeBody = 1u << 20;

  const ModelRegistry& models() const { return models_; }
  ModelRegistry& models() { return models_; }
  const TokenCache& cache() const { return cache_; }
  // All but `prompts`.
  TokenizerReport Report() const;

 private:
  struct Work;  // one prompt on its way

  boost::asio::awaitable<Answer> Answered(std::string_view path, std::string_view body, bool any);
  // The prompt's pieces; kNone: they are in `work`.
  boost::asio::awaitable<PromptReason> Understand(std::string_view body, Work* work);
  // Its tokens; literal_found in `work` says that it must be understood again.
  boost::asio::awaitable<PromptReason> Encode(Work* work);
  boost::asio::awaitable<void> RunOn(boost::asio::thread_pool& thread, std::function<void()> job);

  const LocalTokenizerOptions options_;
  const ModelDirectory* const directory_;
  ModelRegistry models_;
  PromptRenderer renderer_;
  TokenCache cache_;
  size_t waiting_ = 0;
  Counter& known_bytes_;
  Counter& new_bytes_;
  Gauge& cache_size_;
  boost::asio::thread_pool thread_{1}, aside_{1};
};

}  // namespace ember::router
