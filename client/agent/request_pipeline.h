// RequestPipeline: one client request from its arrival to the end of its reply (README, "The life
// of a request").
//
// Concurrency: coroutines of the HTTP loop, which has one thread. Life: everything given must
// outlive it, and it must outlive the server that calls Handle.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>

#include "client/agent/agent_metrics.h"
#include "client/agent/engine_monitor.h"
#include "client/agent/prefetcher.h"
#include "client/agent/prompt_tokenizer.h"
#include "client/agent/request_body.h"
#include "client/agent/request_log.h"
#include "client/agent/slot_filler.h"
#include "client/agent/slot_keeper.h"
#include "client/agent/slot_table.h"
#include "client/http/relay.h"
#include "client/http/request.h"
#include "client/http/response_writer.h"
#include "client/http/upstream_pool.h"

namespace ember::agent {

struct PipelineParts {
  http::UpstreamPool& pool;
  EngineClient& engine;
  EngineMonitor& monitor;
  SlotTable& slots;
  PromptTokenizer& tokenizer;
  SlotFiller& filler;
  Prefetcher& prefetcher;
  SlotKeeper& keeper;
  RequestLog& log;
  AgentMetrics& metrics;
  std::string replica_id;
};

class RequestPipeline {
 public:
  explicit RequestPipeline(PipelineParts parts) : parts_(std::move(parts)) {}

  // Answers any request that is meant for the engine.
  boost::asio::awaitable<void> Handle(http::Request& request, http::ResponseWriter& writer);

  // Prompt tokens of running and waiting requests that are not computed yet.
  uint64_t pending_prefill_tokens() const { return pending_prefill_tokens_; }

 private:
  struct Run;  // one completion request
  class Pending;

  boost::asio::awaitable<void> Complete(CompletionKind kind, http::Request& request,
                                        http::ResponseWriter& writer);
  boost::asio::awaitable<void> PassThrough(http::Request& request, http::ResponseWriter& writer);
  // Sets run.prompt, or run.bypass when the cache must stay out.
  boost::asio::awaitable<void> FindPrompt(Run& run);
  // Null: it will not wait, or has nothing to load.
  std::shared_ptr<Prefetcher::Claim> ReceiveWhileWaiting(const Run& run);
  boost::asio::awaitable<Status> GetSlot(Run& run);
  boost::asio::awaitable<void> Forward(Run& run);
  // What the engine counted, once it is known; again is nothing.
  void NoteTimings(Run& run);
  void NoteOutcome(Run& run, const http::RelayOutcome& outcome);
  http::Headers ReplyHeaders(const Run& run) const;

  const PipelineParts parts_;
  uint64_t pending_prefill_tokens_ = 0;
};

}  // namespace ember::agent
