// PrefetchHints: takes what a router says of a request that it is about to send here, finds the
// prompt's tokens if they were not told, and has its prefix received.
//
// Concurrency: the HTTP loop's thread. Life: everything given must outlive it; destroy it only
// after the loop has stopped.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <vector>

#include "client/agent/engine_monitor.h"
#include "client/agent/prefetcher.h"
#include "client/agent/prompt_tokenizer.h"
#include "client/agent/slot_filler.h"

namespace ember::agent {

struct PrefetchHint {
  std::string path;
  std::string body;
  std::vector<TokenId> tokens;  // the prompt's first ones, when known; else path and body say it
  uint32_t wanted = 0;          // tokens of the prompt that the store is thought to have
};

class PrefetchHints {
 public:
  PrefetchHints(http::HttpLoop& loop, EngineMonitor& monitor, PromptTokenizer& tokenizer,
                SlotFiller& filler, Prefetcher& prefetcher, AgentMetrics& metrics)
      : loop_(loop),
        monitor_(monitor),
        tokenizer_(tokenizer),
        filler_(filler),
        prefetcher_(prefetcher),
        metrics_(metrics) {}

  // At once: nobody is waited for.
  PrefetchAnswer Take(PrefetchHint hint);

 private:
  using Identity = std::shared_ptr<const EngineIdentity>;
  PrefetchAnswer TakeBody(PrefetchHint hint, Identity identity);
  boost::asio::awaitable<void> FindTokens(PrefetchHint hint, RequestBody request,
                                          Identity identity);
  PrefetchAnswer Nothing(std::string reason);

  http::HttpLoop& loop_;
  EngineMonitor& monitor_;
  PromptTokenizer& tokenizer_;
  SlotFiller& filler_;
  Prefetcher& prefetcher_;
  AgentMetrics& metrics_;
  size_t tokenizing_ = 0;
};

}  // namespace ember::agent
