#include "kvstore/server/data_server.h"

#include <spdlog/spdlog.h>

namespace ember::kv {
namespace {

constexpr Duration kAcceptPause = milliseconds(50);  // when the process is out of descriptors
constexpr size_t kMaxRefusing = 64;
constexpr Duration kLogInterval = seconds(1);

}  // namespace

Result<std::unique_ptr<DataServer>> DataServer::Listen(io::Loop* loop, ShardEngine* engine,
                                                       DiskTier* disk, ServerMetrics* metrics,
                                                       DataServerOptions options) {
  Result<std::unique_ptr<io::Listener>> listener = loop->Listen(options.listen);
  if (!listener.ok()) return listener.status();
  if (options.members.empty()) {
    options.members.push_back(
        {.id = options.node_id, .host = options.listen.host, .port = (*listener)->port()});
  }
  ServerContext context{.loop = loop,
                        .engine = engine,
                        .metrics = metrics,
                        .options = std::move(options),
                        .disk = disk};
  return std::unique_ptr<DataServer>(new DataServer(std::move(context), *std::move(listener)));
}

void DataServer::Serve(std::vector<uint16_t> shard_ports) {
  if (shard_ports.empty()) shard_ports = {listener_->port()};
  context_.shard_ports = std::move(shard_ports);
  gate_.Spawn(AcceptAll());
  Sweep();
}

DataServer::DataServer(ServerContext context, std::unique_ptr<io::Listener> listener)
    : context_(std::move(context)), listener_(std::move(listener)) {}

DataServer::~DataServer() = default;

io::Task<void> DataServer::AcceptAll() {
  for (;;) {
    Result<std::unique_ptr<io::Stream>> stream = co_await listener_->Accept();
    if (gate_.closed()) co_return;
    if (stream.ok()) {
      const bool room = connections_.size() < context_.options.max_connections;
      gate_.Spawn(room ? Serve(*std::move(stream)) : Refuse(*std::move(stream)));
    } else if (stream.status().code() == StatusCode::kCancelled) {
      co_return;
    } else {
      spdlog::warn("accept failed error=\"{}\"", stream.status().ToString());
      co_await context_.loop->Sleep(kAcceptPause);
    }
  }
}

io::Task<void> DataServer::Serve(std::unique_ptr<io::Stream> stream) {
  const OwnerId id = ++last_id_;
  DataConnection connection(&context_, id, std::move(stream));
  connections_.emplace(id, &connection);
  context_.metrics->accepted.Add();
  context_.metrics->connections.Set(static_cast<double>(connections_.size()));
  const Status why = co_await connection.Run();
  Log(connection, why);
  connections_.erase(id);
  context_.metrics->connections.Set(static_cast<double>(connections_.size()));
}

io::Task<void> DataServer::Refuse(std::unique_ptr<io::Stream> stream) {
  context_.metrics->refused.Add();
  if (refusing_ >= kMaxRefusing) co_return;
  ++refusing_;
  Watch unwatched(context_.loop);  // a new connection's buffer takes so few bytes at once
  ReplyQueue replies(&context_, stream.get(), &unwatched);
  const wire::ErrorReply error{StatusCode::kBusy, "too many connections"};
  replies.Add(wire::FrameType::kError, 0, Encode(error));
  (void)co_await replies.Flush();
  --refusing_;
}

void DataServer::Sweep() {
  const TimePoint now = context_.loop->Now();
  for (auto& [id, connection] : connections_) connection->Sweep(now);
  context_.engine->ExpireDue();
  sweep_timer_ =
      context_.loop->StartTimer(now + context_.options.sweep_interval, [this] { Sweep(); });
}

void DataServer::Log(const DataConnection& connection, const Status& why) {
  const bool expected = why.code() == StatusCode::kNotFound || why.code() == StatusCode::kCancelled;
  if (expected) return;
  // A hostile peer must not fill the log.
  const TimePoint now = context_.loop->Now();
  if (now - last_log_ < kLogInterval) {
    ++unlogged_;
    return;
  }
  spdlog::info("connection ended peer=\"{}\" reason=\"{}\" unlogged_before={}", connection.peer(),
               why.ToString(), unlogged_);
  last_log_ = now;
  unlogged_ = 0;
}

io::Task<Status> DataServer::Stop(Duration grace) {
  listener_->Close();
  // Closing a stream only asks; connections leave the map when their coroutines run again.
  for (auto& [id, connection] : connections_) connection->Finish();
  const auto cut = context_.loop->StartTimer(context_.loop->Now() + grace, [this] {
    for (auto& [id, connection] : connections_) connection->Close();
  });
  co_await gate_.Close();
  sweep_timer_.reset();
  co_return OkStatus();
}

}  // namespace ember::kv
