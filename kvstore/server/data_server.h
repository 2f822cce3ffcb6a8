// DataServer: the data plane's listener and its connections, over one shard's engine.
//
// Concurrency: made and used on the loop's thread.
// Life: Stop it, awaited on the loop, before the engine dies; it dies on the loop's thread, or
// after the loop has stopped.
#pragma once

#include <map>
#include <memory>

#include "client/io/gate.h"
#include "kvstore/server/data_connection.h"

namespace ember::kv {

class DataServer {
 public:
  // Binds the address: clients queue up. kUnavailable with the system's reason when it is not free.
  // `disk` may be null: memory only.
  static Result<std::unique_ptr<DataServer>> Listen(io::Loop* loop, ShardEngine* engine,
                                                    DiskTier* disk, ServerMetrics* metrics,
                                                    DataServerOptions options);
  // Takes connections. `shard_ports`: of the node's shards, by number; empty: this one alone.
  void Serve(std::vector<uint16_t> shard_ports = {});
  ~DataServer();

  // Takes no new connection, answers what has arrived, closes everything after `grace` at the
  // latest. Once.
  io::Task<Status> Stop(Duration grace);

  uint16_t port() const { return listener_->port(); }
  size_t connections() const { return connections_.size(); }
  const DataServerOptions& options() const { return context_.options; }

 private:
  DataServer(ServerContext context, std::unique_ptr<io::Listener> listener);

  io::Task<void> AcceptAll();
  io::Task<void> Serve(std::unique_ptr<io::Stream> stream);
  io::Task<void> Refuse(std::unique_ptr<io::Stream> stream);
  void Sweep();
  void Log(const DataConnection& connection, const Status& why);

  ServerContext context_;
  const std::unique_ptr<io::Listener> listener_;
  std::unique_ptr<io::Loop::Timer> sweep_timer_;
  std::map<OwnerId, DataConnection*> connections_;
  OwnerId last_id_ = 0;
  size_t refusing_ = 0;
  TimePoint last_log_{};
  uint64_t unlogged_ = 0;
  io::Gate gate_;
};

}  // namespace ember::kv
