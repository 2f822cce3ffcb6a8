#include "kvstore/node.h"

#include "kvstore/engine/lru_policy.h"

namespace ember::kv {
namespace {

constexpr Duration kBeatInterval = milliseconds(250);
constexpr Duration kAliveWithin = seconds(3);

DataServerOptions ServerOptions(const NodeConfig& config, uint64_t incarnation) {
  DataServerOptions options;
  options.listen = config.listen;
  options.node_id = config.node_id;
  options.incarnation = incarnation;
  if (config.peers) {
    options.view_number = config.peers->number;
    options.members = config.peers->members;
  }
  return options;
}

}  // namespace

Result<std::unique_ptr<Node>> Node::Start(const NodeConfig& config) {
  std::unique_ptr<Node> node(new Node());
  EMBER_RETURN_IF_ERROR(node->Open(config));
  return node;
}

Node::~Node() {
  Stop(Duration::zero());
  thread_.reset();  // nothing of what follows is used any more
}

Status Node::Open(const NodeConfig& config) {
  Result<std::unique_ptr<Arena>> arena = Arena::Make(config.memory_bytes, config.prealloc);
  if (!arena.ok()) return arena.status().WithContext("--memory");
  Result<std::unique_ptr<io::LoopThread>> thread =
      io::LoopThread::Make(config.backend, &io_fallback_);
  if (!thread.ok()) return thread.status().WithContext("--io");
  arena_ = *std::move(arena);
  thread_ = *std::move(thread);
  started_at_ = thread_->loop().Now();
  while (incarnation_ == 0) incarnation_ = random_.Next();
  EngineOptions options;
  options.max_segment_bytes = config.max_segment_bytes;
  options.max_attempts = wire::kMaxAttempts;
  options.max_leases = wire::kMaxLeases;
  options.max_lease = milliseconds(wire::kMaxLeaseMs);
  options.attempt_deadline = milliseconds(wire::kAttemptDeadlineMs);
  engine_ = std::make_unique<ShardEngine>(options, arena_.get(), std::make_unique<LruPolicy>(),
                                          &thread_->loop(), &random_, &engine_metrics_);
  const Status started = io::RunOnLoop<Status>(
      thread_->loop(), [&] { return StartServer(ServerOptions(config, incarnation_)); });
  if (!started.ok()) return started.WithContext("--listen");
  data_address_ = io::Endpoint{config.listen.host, server_->port()}.ToString();
  return OkStatus();
}

io::Task<Status> Node::StartServer(DataServerOptions options) {
  Result<std::unique_ptr<DataServer>> server =
      DataServer::Start(&thread_->loop(), engine_.get(), &server_metrics_, std::move(options));
  if (!server.ok()) co_return server.status();
  server_ = *std::move(server);
  Beat();
  co_return OkStatus();
}

void Node::Beat() {
  const TimePoint now = thread_->loop().Now();
  last_beat_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  beat_timer_ = thread_->loop().StartTimer(now + kBeatInterval, [this] { Beat(); });
}

bool Node::alive() const {
  const TimePoint last{Duration(last_beat_.load(std::memory_order_relaxed))};
  return SteadyClock().Now() - last < kAliveWithin;
}

void Node::Stop(Duration grace) {
  if (std::exchange(stopped_, true) || server_ == nullptr) return;
  (void)io::RunOnLoop<Status>(thread_->loop(), [&]() -> io::Task<Status> {
    beat_timer_.reset();
    return server_->Stop(grace);
  });
}

Result<NodeStatus> Node::GetStatus(Duration timeout) {
  auto promise = std::make_shared<std::promise<NodeStatus>>();
  std::future<NodeStatus> future = promise->get_future();
  thread_->loop().Post([this, promise] { promise->set_value(Describe()); });
  if (future.wait_for(timeout) != std::future_status::ready) {
    return DeadlineError("the node's thread does not answer");
  }
  try {
    return future.get();
  } catch (const std::future_error&) {
    return CancelledError("the node has stopped");
  }
}

NodeStatus Node::Describe() const {
  const DataServerOptions& options = server_->options();
  return {
      .node_id = options.node_id,
      .incarnation = incarnation_,
      .uptime_seconds = std::chrono::duration<double>(thread_->loop().Now() - started_at_).count(),
      .data_address = data_address_,
      .io_backend = std::string(io_backend()),
      .memory_capacity_bytes = arena_->capacity(),
      .memory_used_bytes = arena_->used(),
      .segments = engine_->segments(),
      .hits = engine_metrics_.hits.value(),
      .misses = engine_metrics_.TotalMisses(),
      .evictions = engine_metrics_.evictions.value(),
      .corruptions = engine_metrics_.corruptions.value(),
      .connections = static_cast<uint32_t>(server_->connections()),
      .bytes_in = server_metrics_.bytes_in.value(),
      .bytes_out = server_metrics_.bytes_out.value(),
      .view_number = options.view_number,
      .members = options.members};
}

}  // namespace ember::kv
