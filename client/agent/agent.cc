#include "client/agent/agent.h"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <charconv>
#include <future>
#include <thread>

#include "client/agent/admin_pages.h"
#include "client/agent/request_pipeline.h"
#include "client/http/server.h"

namespace ember::agent {

namespace asio = boost::asio;

namespace {
constexpr Duration kReportTick = milliseconds(100);
constexpr Duration kReportInterval = milliseconds(400);
constexpr Duration kTokenizeTimeout = seconds(30);
constexpr Duration kStoreTimeout = seconds(1);
constexpr Duration kPrefetchTimeout = seconds(1);
constexpr Duration kStopGrace = seconds(5);
}  // namespace

// Declared in the reverse order of destruction: suspended coroutines die with the loop, and what
// they refer to must still be there.
struct Agent::Impl {
  Config config;
  std::function<void(const std::string&)> on_ready;
  MetricsRegistry registry;
  AgentMetrics metrics{registry};
  RequestLog log;
  AgentFeed feed;
  std::optional<SlotFolder> folder;
  std::unique_ptr<StoreClient> store;
  std::unique_ptr<PrefetchCache> prefetched;
  std::unique_ptr<PrefixLoader> loader;
  std::unique_ptr<SegmentPusher> pusher;
  std::unique_ptr<SlotTable> slots;
  std::unique_ptr<EngineClient> engine;
  std::unique_ptr<EngineMonitor> monitor;
  std::unique_ptr<PromptTokenizer> tokenizer;
  std::unique_ptr<SlotFiller> filler;
  std::unique_ptr<Prefetcher> prefetcher;
  std::unique_ptr<PrefetchHints> hints;
  std::unique_ptr<SlotKeeper> keeper;
  std::unique_ptr<RequestPipeline> pipeline;
  std::unique_ptr<AdminPages> pages;
  http::Cancellation stopping;
  std::shared_ptr<const EngineIdentity> last_identity;
  bool stopped = false;
  std::unique_ptr<http::HttpLoop> loop;
  std::unique_ptr<http::UpstreamPool> pool;
  std::unique_ptr<http::HttpServer> server;

  Status Build(const StoreMaker& make_store);
  Status Listen();
  void OnEngineChange();
  void OnSlotChange(uint32_t slot);
  void SayReady();
  FeedReport Report() const;
  asio::awaitable<void> KeepReporting();
  asio::awaitable<Result<TokenizedRequest>> TokenizeOnLoop(std::string path, std::string body);
  // Runs `work` on the loop's thread and waits.
  void OnLoop(std::function<void()> work);
  void Drain();
  void Stop();
};

Result<std::unique_ptr<StoreClient>> Agent::ConnectToStores(const Config& config,
                                                            MetricsRegistry& metrics) {
  StoreClientOptions options;
  options.seeds = config.stores;
  options.name = "agent " + config.replica_id;
  options.backend = config.io_backend;
  options.metrics = &metrics;
  return StoreClient::Create(std::move(options));
}

Status Agent::Impl::Build(const StoreMaker& make_store) {
  Result<SlotFolder> opened = SlotFolder::Open(config.slot_dir, config.replica_id);
  if (!opened.ok()) return opened.status();
  folder.emplace(*std::move(opened));
  if (!folder->on_tmpfs()) {
    spdlog::warn("--slot-dir {} is not on tmpfs: every turn writes and reads it", folder->path());
  }
  if (!config.stores.empty()) {
    Result<std::unique_ptr<StoreClient>> client = make_store(config, registry);
    if (!client.ok()) return client.status().WithContext("--stores");
    store = *std::move(client);
  }
  loop = std::make_unique<http::HttpLoop>(1);
  http::UpstreamPoolOptions pool_options;
  pool_options.metrics = &registry;
  pool = std::make_unique<http::UpstreamPool>(*loop, pool_options);
  slots = std::make_unique<SlotTable>(config.max_waiting,
                                      [this](uint32_t slot) { OnSlotChange(slot); });
  engine = std::make_unique<EngineClient>(*pool, config.engine);
  EngineMonitor::Options options;
  options.model_file = config.model_file;
  options.identity = {config.tenant, config.salt, config.engine_settings};
  options.slots = config.slots;
  monitor = std::make_unique<EngineMonitor>(options, *engine, *slots, *folder, metrics,
                                            [this] { OnEngineChange(); });
  tokenizer = std::make_unique<PromptTokenizer>(*engine);
  prefetched =
      std::make_unique<PrefetchCache>(config.prefetch_bytes, config.prefetch_keep, metrics);
  loader = std::make_unique<PrefixLoader>(store.get(), *folder, *prefetched, metrics);
  if (store) pusher = std::make_unique<SegmentPusher>(*store, loader->priority(), metrics);
  filler = std::make_unique<SlotFiller>(*engine, *monitor, *loader, *folder, metrics);
  prefetcher = std::make_unique<Prefetcher>(*loop, *loader, *prefetched, metrics);
  hints =
      std::make_unique<PrefetchHints>(*loop, *monitor, *tokenizer, *filler, *prefetcher, metrics);
  keeper = std::make_unique<SlotKeeper>(*loop, *engine, *monitor, *folder, pusher.get(), metrics);
  pipeline = std::make_unique<RequestPipeline>(
      PipelineParts{*pool, *engine, *monitor, *slots, *tokenizer, *filler, *prefetcher, *keeper,
                    log, metrics, config.replica_id});
  pages = std::make_unique<AdminPages>(registry, log, feed, *monitor, *slots);
  return Listen();
}

Status Agent::Impl::Listen() {
  http::HttpServerOptions options;
  options.host = config.listen.host;
  options.port = config.listen.port;
  options.metrics = &registry;
  Result<std::unique_ptr<http::HttpServer>> listening = http::HttpServer::Listen(
      *loop, options, [this](http::Request& request, http::ResponseWriter& writer) {
        if (pages->Has(request)) return pages->Handle(request, writer);
        return pipeline->Handle(request, writer);
      });
  if (!listening.ok()) return listening.status().WithContext("--listen");
  server = *std::move(listening);
  loop->Spawn(monitor->Run());
  loop->Spawn(KeepReporting());
  return OkStatus();
}

void Agent::Impl::OnSlotChange(uint32_t slot) {
  const SlotContent& content = slots->content(slot);
  const auto identity = monitor->identity();
  std::vector<BlockHash> blocks;
  if (content.known && identity != nullptr) {
    HashChain chain(identity->root, kTokensPerBlock);
    chain.Append(content.tokens);
    for (const ChainBlock& block : chain.blocks()) blocks.push_back(block.hash);
  }
  feed.SetHeld(slot, std::move(blocks));
}

void Agent::Impl::OnEngineChange() {
  const auto identity = monitor->identity();
  if (identity != nullptr && identity != last_identity) {
    last_identity = identity;
    tokenizer->Forget();
    filler->ForgetUnusedRestores();
    feed.SetIdentity(KeySpace::Of(identity->root, kTokensPerBlock), identity->props.alias);
    for (uint32_t slot = 0; slot < slots->size(); ++slot) OnSlotChange(slot);
  }
  feed.SetReport(Report());
  SayReady();
}

void Agent::Impl::SayReady() {
  if (!monitor->ready() || !on_ready) return;
  const bool on = monitor->identity() != nullptr;
  std::exchange(on_ready, nullptr)(on ? "on" : "off: " + monitor->cache_problem());
}

FeedReport Agent::Impl::Report() const {
  FeedReport out;
  out.healthy = monitor->ready();
  out.load.slots_total = slots->size();
  out.load.running = slots->running();
  out.load.waiting = static_cast<uint32_t>(slots->waiting());
  out.load.pending_prefill_tokens = pipeline->pending_prefill_tokens();
  out.prefill = filler->prefill_model();
  out.load_tokens_per_ms = filler->load_tokens_per_ms();
  out.cached_tokens_total = metrics.cached_tokens.value();
  out.computed_tokens_total = metrics.computed_tokens.value();
  return out;
}

asio::awaitable<void> Agent::Impl::KeepReporting() {
  FeedReport last;
  TimePoint said;
  while (!stopping.cancelled()) {
    const FeedReport now = Report();
    const bool changed = now.healthy != last.healthy || now.load.running != last.load.running ||
                         now.load.waiting != last.load.waiting;
    if (changed || std::chrono::steady_clock::now() - said >= kReportInterval) {
      feed.SetReport(now);
      last = now;
      said = std::chrono::steady_clock::now();
    }
    prefetched->Sweep(std::chrono::steady_clock::now());
    (void)co_await http::SleepFor(kReportTick, &stopping);
  }
}

asio::awaitable<Result<TokenizedRequest>> Agent::Impl::TokenizeOnLoop(std::string path,
                                                                      std::string body) {
  const auto kind = CompletionKindOf(path);
  if (!kind) co_return InvalidError("not a completion path: " + path);
  const auto identity = monitor->identity();
  if (identity == nullptr) co_return UnavailableError(monitor->cache_problem());
  Result<RequestBody> request = ReadRequestBody(*kind, body);
  if (!request.ok()) co_return request.status();
  if (!request->bypass.empty()) co_return InvalidError("the cache stays out: " + request->bypass);
  Result<PromptTokenizer::Tokens> tokens = co_await tokenizer->Tokenize(*request, body);
  if (!tokens.ok()) co_return tokens.status();
  HashChain chain(identity->root, kTokensPerBlock);
  chain.Append(**tokens);
  TokenizedRequest out;
  out.ns = identity->root.id;
  out.token_count = static_cast<uint32_t>((*tokens)->size());
  for (const ChainBlock& block : chain.blocks()) out.blocks.push_back(block.hash);
  co_return out;
}

void Agent::Impl::OnLoop(std::function<void()> work) {
  std::promise<void> done;
  loop->Spawn([](std::function<void()> run, std::promise<void>& promise) -> asio::awaitable<void> {
    run();
    promise.set_value();
    co_return;
  }(std::move(work), done));
  done.get_future().wait();
}

// What is saved but not pushed yet would be lost to everybody.
void Agent::Impl::Drain() {
  const TimePoint deadline = std::chrono::steady_clock::now() + kStopGrace;
  for (bool busy = true; busy && std::chrono::steady_clock::now() < deadline;) {
    OnLoop([&] { busy = slots->running() > 0; });
    busy = busy || (pusher && pusher->pending() > 0);
    if (busy) std::this_thread::sleep_for(milliseconds(10));
  }
}

void Agent::Impl::Stop() {
  if (std::exchange(stopped, true)) return;
  feed.Close();
  if (server) {
    server->Stop(kStopGrace);
    Drain();
    OnLoop([this] {
      stopping.Cancel();
      prefetcher->Stop();
      monitor->Stop();
    });
  }
  if (store) store->Shutdown();
  pusher.reset();
  if (loader) loader->Stop();
  if (loop) loop->Stop();
  if (slots) slots->Close();
}

Agent::Agent(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Agent::~Agent() { Stop(); }

Result<std::unique_ptr<Agent>> Agent::Start(Config config, const StoreMaker& make_store) {
  auto impl = std::make_unique<Impl>();
  impl->config = std::move(config);
  std::unique_ptr<Agent> agent(new Agent(std::move(impl)));
  EMBER_RETURN_IF_ERROR(agent->impl_->Build(make_store));
  return agent;
}

uint16_t Agent::port() const { return impl_->server->port(); }
AgentFeed& Agent::feed() { return impl_->feed; }
void Agent::Stop() { impl_->Stop(); }

void Agent::OnReady(std::function<void(const std::string& cache)> ready) {
  impl_->OnLoop([&] {
    impl_->on_ready = std::move(ready);
    impl_->SayReady();
  });
}

Result<TokenizedRequest> Agent::Tokenize(const std::string& path, const std::string& body) {
  auto done = std::make_shared<std::promise<Result<TokenizedRequest>>>();
  std::future<Result<TokenizedRequest>> future = done->get_future();
  impl_->loop->Spawn([](Impl& impl, std::string p, std::string b,
                        decltype(done) promise) -> asio::awaitable<void> {
    promise->set_value(co_await impl.TokenizeOnLoop(std::move(p), std::move(b)));
  }(*impl_, path, body, done));
  if (future.wait_for(kTokenizeTimeout) != std::future_status::ready) {
    return DeadlineError("tokenize");
  }
  return future.get();
}

PrefetchAnswer Agent::Prefetch(PrefetchHint hint) {
  auto done = std::make_shared<std::promise<PrefetchAnswer>>();
  std::future<PrefetchAnswer> future = done->get_future();
  impl_->loop->Spawn(
      [](Impl& impl, PrefetchHint h, decltype(done) promise) -> asio::awaitable<void> {
        promise->set_value(impl.hints->Take(std::move(h)));
        co_return;
      }(*impl_, std::move(hint), done));
  if (future.wait_for(kPrefetchTimeout) != std::future_status::ready) {
    return {PrefetchAnswer::kNoRoom, "the agent is busy"};
  }
  return future.get();
}

size_t Agent::StorePrefix(std::span<const BlockHash> chain) {
  if (!impl_->store || chain.empty()) return 0;
  const std::optional<KeySpace> space = impl_->feed.Now().space;
  if (!space) return 0;
  constexpr size_t kPerGroup = kTokensPerPlacementGroup / kTokensPerBlock;
  std::vector<SegmentRef> refs;
  for (size_t i = 0; i < chain.size(); ++i) {
    SegmentRef ref;
    ref.key = {space->id, chain[i]};
    ref.placement = chain[i / kPerGroup * kPerGroup];
    ref.first_block = static_cast<uint32_t>(i);
    ref.block_count = 1;
    refs.push_back(ref);
  }
  return impl_->store->Match(refs, kStoreTimeout).usable;
}

}  // namespace ember::agent
