#include "client/agent/request_pipeline.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>

#include "client/agent/elapsed.h"
#include "client/agent/reply_observer.h"
#include "proto/base/random.h"

namespace ember::agent {

namespace asio = boost::asio;

namespace {
constexpr Duration kMaxWaitForSlot = seconds(120);
constexpr size_t kMaxIdBytes = 128;
constexpr const char* kEngine = "the engine";  // in errors that clients see
// A longer body holds more tokens than a slot (kMaxSlotTokens), or media: not worth reading.
constexpr size_t kMaxReadBodyBytes = 8u << 20;

double MsBetween(TimePoint start, TimePoint end) {
  return end == TimePoint() ? -1 : ToMilliseconds(end - start);
}

double UnixTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The caller's, if it is fit for a header and a log, else a new one.
std::string RequestIdOf(const http::Request& request) {
  const std::string_view given = request.headers.Get("x-ember-request-id");
  const bool fit = !given.empty() && given.size() <= kMaxIdBytes &&
                   std::ranges::all_of(given, [](char c) { return c > 0x20 && c < 0x7f; });
  if (fit) return std::string(given);
  SystemRandom random;
  const uint64_t id = random.Next();
  return ToHex(std::as_bytes(std::span(&id, 1)));
}

// Requests that use no slot.
bool LeavesSlotsAlone(const http::Request& request) {
  return request.method == "GET" || request.method == "HEAD" || request.method == "OPTIONS" ||
         request.path == "/tokenize" || request.path == "/detokenize" ||
         request.path == "/apply-template" || request.path == "/v1/chat/completions/input_tokens";
}

// Requests after which the engine may be another one: adapters, properties, models, slots.
bool ChangesEngine(const http::Request& request) {
  return request.path.starts_with("/lora-adapters") || request.path.starts_with("/props") ||
         request.path.starts_with("/models") || request.path.starts_with("/slots");
}

bool IsEventStream(const http::ResponseHead& head) {
  return head.headers.Get("content-type").starts_with("text/event-stream");
}
}  // namespace

// Counts a request's tokens as pending until its first byte, or its end.
class RequestPipeline::Pending {
 public:
  Pending(uint64_t& total, uint64_t tokens) : total_(&total) { Set(tokens); }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  ~Pending() { Set(0); }
  void Set(uint64_t tokens) {
    *total_ += tokens - tokens_;
    tokens_ = tokens;
  }

 private:
  uint64_t* total_;
  uint64_t tokens_ = 0;
};

struct RequestPipeline::Run {
  Run(http::Request& request_in, http::ResponseWriter& writer_in, uint64_t& pending_total)
      : request(request_in), writer(writer_in), pending(pending_total, 0) {}

  http::Request& request;
  http::ResponseWriter& writer;
  RequestBody body;
  std::string bypass;  // why the cache stays out; empty: it does not
  std::shared_ptr<const EngineIdentity> identity;
  std::shared_ptr<PromptSegments> prompt;
  bool use_store = true;
  bool recompute = false;
  Filled filled;
  SlotTable::Lease lease;
  std::shared_ptr<RequestRecord> record;
  std::optional<ReplyObserver> observer;
  Pending pending;

  FillWish wish() const { return {identity, prompt, use_store, recompute}; }
  bool gone() { return writer.gone().cancelled(); }
};

asio::awaitable<void> RequestPipeline::Handle(http::Request& request,
                                              http::ResponseWriter& writer) {
  const auto kind = CompletionKindOf(request.path);
  if (request.method == "POST" && kind) {
    if (request.body.size() <= kMaxReadBodyBytes) return Complete(*kind, request, writer);
    parts_.metrics.Bypassed("too_large").Add();
  }
  return PassThrough(request, writer);
}

asio::awaitable<void> RequestPipeline::PassThrough(http::Request& request,
                                                   http::ResponseWriter& writer) {
  http::RelayOptions options;
  options.upstream_name = kEngine;
  const http::RelayOutcome outcome = co_await http::Relay(parts_.pool, parts_.engine.origin(),
                                                          request, writer, std::move(options));
  if (!LeavesSlotsAlone(request)) {
    ChangesEngine(request) ? parts_.monitor.NoteEngineChanged() : parts_.slots.DropAll();
  }
  if (outcome.error.code() == StatusCode::kUnavailable) {
    parts_.monitor.NoteEngineGone(outcome.error.message());
  }
  if (outcome.end != http::RelayEnd::kFailedBefore) co_return;
  (void)co_await writer.SendError(http::OpenAiError::FromStatus(outcome.told));
}

asio::awaitable<void> RequestPipeline::Complete(CompletionKind kind, http::Request& request,
                                                http::ResponseWriter& writer) {
  Run run(request, writer, pending_prefill_tokens_);
  run.record = parts_.log.Begin();
  run.record->id = RequestIdOf(request);
  run.record->path = request.path;
  run.record->unix_time = UnixTime() - MsSince(request.received_at) / 1e3;
  Status status;
  if (Result<RequestBody> body = ReadRequestBody(kind, request.body); body.ok()) {
    run.body = *std::move(body);
    run.record->stream = run.body.stream;
    co_await FindPrompt(run);
    status = co_await GetSlot(run);
  } else {
    status = body.status();
  }
  if (status.ok()) {
    co_await Forward(run);
    co_return;
  }
  const http::OpenAiError error = http::OpenAiError::FromStatus(status);
  run.record->status = error.status;
  run.record->notes.push_back(status.ToString());
  if (!run.gone()) (void)co_await writer.SendError(error, ReplyHeaders(run));
}

asio::awaitable<void> RequestPipeline::FindPrompt(Run& run) {
  const http::Headers& headers = run.request.headers;
  run.use_store = headers.Get("x-ember-store") != "off";
  run.recompute = headers.Get("x-ember-cache") == "off" || !run.body.cache_prompt;
  run.use_store = run.use_store && headers.Get("x-ember-cache") != "off";
  run.identity = parts_.monitor.identity();
  run.bypass = run.body.bypass;
  if (run.bypass.empty() && run.identity == nullptr) run.bypass = "no_identity";
  if (run.bypass.empty()) {
    const TimePoint start = std::chrono::steady_clock::now();
    Result<PromptTokenizer::Tokens> tokens =
        co_await parts_.tokenizer.Tokenize(run.body, run.request.body);
    run.record->tokenize_ms = MsSince(start);
    if (tokens.ok()) {
      run.prompt = SegmentsOf(*run.identity, **tokens);
      run.record->prompt_tokens = run.prompt->tokens.size();
      run.pending.Set(run.prompt->tokens.size());
    } else {
      // The engine will say to the client what it doesn't like.
      parts_.metrics.Failure(CacheFailure::kTokenize).Add();
      run.record->notes.push_back(tokens.status().ToString());
      run.bypass = "tokenize";
    }
  }
  if (run.bypass.empty()) co_return;
  run.identity = nullptr;
  parts_.metrics.Bypassed(run.bypass).Add();
  run.record->notes.push_back("bypass: " + run.bypass);
}

std::shared_ptr<Prefetcher::Claim> RequestPipeline::ReceiveWhileWaiting(const Run& run) {
  if (run.identity == nullptr) return nullptr;
  const size_t segments = parts_.filler.LoadableSegments(run.wish());
  const bool waits = parts_.slots.WouldWait(run.prompt->tokens, kTokensPerBlock);
  if (segments == 0 || !waits) return nullptr;
  return parts_.prefetcher.Start({run.identity, run.prompt, segments});
}

asio::awaitable<Status> RequestPipeline::GetSlot(Run& run) {
  if (!parts_.monitor.healthy()) co_return BusyError("the engine is not ready");
  const TimePoint start = std::chrono::steady_clock::now();
  std::vector<TokenId> prompt;
  if (run.prompt != nullptr) prompt = run.prompt->tokens;
  const auto claim = ReceiveWhileWaiting(run);
  Result<SlotTable::Lease> lease = co_await parts_.slots.Acquire(
      std::move(prompt), kTokensPerBlock, kMaxWaitForSlot, &run.writer.gone());
  run.record->queue_ms = MsSince(start);
  if (!lease.ok()) co_return lease.status();
  run.lease = *std::move(lease);
  run.record->slot = static_cast<int>(run.lease.slot());
  // While this request waited the engine may have gone or become another one.
  if (run.identity != parts_.monitor.identity()) run.identity = nullptr;
  if (run.identity == nullptr) {
    if (parts_.monitor.identity() != nullptr && !run.lease.content().known) {
      (void)co_await parts_.engine.EraseSlot(run.lease.slot());
    }
    co_return OkStatus();
  }
  run.filled = co_await parts_.filler.Fill(run.wish(), run.lease, *run.record);
  run.record->route = run.filled.route;
  run.pending.Set(run.prompt->tokens.size() - run.filled.cached_tokens);
  if (run.gone()) co_return CancelledError("the client is gone");
  // What the slot will hold in a moment; corrected when it is saved.
  run.lease.SetContent({true, run.prompt->tokens});
  co_return OkStatus();
}

http::Headers RequestPipeline::ReplyHeaders(const Run& run) const {
  return {{"x-ember-replica", parts_.replica_id},
          {"x-ember-route", RouteName(run.filled.route)},
          {"x-ember-cached-tokens", std::to_string(run.filled.cached_tokens)},
          {"x-ember-request-id", run.record->id}};
}

asio::awaitable<void> RequestPipeline::Forward(Run& run) {
  std::optional<bool> cache_prompt;
  if (run.identity != nullptr) {
    if (!run.filled.may_reuse)
      cache_prompt = false;
    else if (run.body.cache_prompt)
      cache_prompt = true;
  }
  const std::string body = AddSlot(run.request.body, run.lease.slot(), cache_prompt);
  http::RelayOptions options;
  options.upstream_name = kEngine;
  options.body = body;
  options.set_request_headers = {{"x-ember-request-id", run.record->id}};
  options.drop_request_headers = {"x-ember-store", "x-ember-cache"};
  options.before_head = [&](http::ResponseHead& head, const http::RelayOutcome& so_far) {
    run.pending.Set(0);
    run.record->ttft_ms = MsBetween(run.request.received_at, so_far.first_byte_at);
    for (const auto& field : ReplyHeaders(run)) head.headers.Set(field.name, field.value);
  };
  options.accept = [&](http::ResponseHead& head) {
    run.observer.emplace(IsEventStream(head));
    return true;
  };
  // The record is complete before the client knows that its reply is: a stream's at its end, any
  // other with its last byte.
  options.on_body = [&](std::string_view piece) {
    run.observer->Feed(piece);
    if (run.observer->whole()) NoteTimings(run);
  };
  options.before_end = [&](const http::RelayOutcome&) -> asio::awaitable<void> {
    NoteTimings(run);
    co_return;
  };
  parts_.metrics.Routed(run.filled.route).Add();
  run.record->overhead_ms = MsSince(run.request.received_at);
  parts_.metrics.overhead.Observe(run.record->overhead_ms / 1e3);
  const http::RelayOutcome outcome = co_await http::Relay(
      parts_.pool, parts_.engine.origin(), run.request, run.writer, std::move(options));
  NoteOutcome(run, outcome);
  if (outcome.end == http::RelayEnd::kFailedBefore) {
    const http::OpenAiError error = http::OpenAiError::FromStatus(outcome.told);
    run.record->status = error.status;
    (void)co_await run.writer.SendError(error, ReplyHeaders(run));
  }
}

void RequestPipeline::NoteTimings(Run& run) {
  if (run.record->counted || !run.observer) return;
  const std::optional<EngineTimings> timings = run.observer->Timings();
  if (!timings) return;
  run.record->counted = true;
  run.record->engine_cached = timings->cached_tokens;
  run.record->engine_computed = timings->computed_tokens;
  run.record->prompt_ms = timings->prompt_ms;
  parts_.metrics.cached_tokens.Add(timings->cached_tokens);
  parts_.metrics.computed_tokens.Add(timings->computed_tokens);
  if (run.identity == nullptr) return;
  parts_.filler.NoteResult(run.filled, *timings, *run.record);
  if (timings->cached_tokens < run.filled.cached_tokens) parts_.slots.DropAll();
}

void RequestPipeline::NoteOutcome(Run& run, const http::RelayOutcome& outcome) {
  NoteTimings(run);
  run.record->status = outcome.end == http::RelayEnd::kClientGone ? 499 : outcome.status;
  run.record->total_ms = MsSince(run.request.received_at);
  if (run.record->ttft_ms >= 0) parts_.metrics.first_byte.Observe(run.record->ttft_ms / 1e3);
  const bool broken =
      outcome.end == http::RelayEnd::kFailedBefore || outcome.end == http::RelayEnd::kFailedMidway;
  if (broken) {
    run.record->notes.push_back(outcome.error.ToString());
    if (outcome.error.code() == StatusCode::kUnavailable) {
      parts_.monitor.NoteEngineGone(outcome.error.message());
    }
  }
  // Other slots may have been used for further choices.
  if (run.body.several) parts_.slots.DropAll();
  KeepJob job;
  job.lease = std::move(run.lease);
  job.record = run.record;
  job.push = run.use_store;
  if (!broken && run.identity == parts_.monitor.identity() && run.identity != nullptr) {
    job.identity = run.identity;
    job.prompt = std::shared_ptr<const std::vector<TokenId>>(run.prompt, &run.prompt->tokens);
  }
  parts_.keeper.Keep(std::move(job));
}

}  // namespace ember::agent
