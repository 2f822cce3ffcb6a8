// Node: one storage node without its control plane: memory, engine, and the data server in a thread
// of its own.
//
// Concurrency: any thread but the node's own. Life: the destructor stops without grace.
#pragma once

#include <atomic>
#include <memory>

#include "client/io/sync.h"
#include "kvstore/config.h"
#include "kvstore/engine/engine_metrics.h"
#include "kvstore/memory/arena.h"
#include "kvstore/server/data_server.h"
#include "kvstore/server/node_status.h"

namespace ember::kv {

class Node {
 public:
  // Takes the memory and listens. Errors name the flag at fault.
  static Result<std::unique_ptr<Node>> Start(const NodeConfig& config);
  ~Node();

  // Takes no new connection, answers what has arrived within `grace`. GetStatus still works then.
  // Idempotent.
  void Stop(Duration grace);

  // Asked of the node's thread: kDeadline when it does not answer in time.
  Result<NodeStatus> GetStatus(Duration timeout);
  // Whether its thread has come round within the last seconds. Never waits.
  bool alive() const;

  std::string data_address() const { return data_address_; }
  std::string_view io_backend() const { return thread_->loop().backend(); }
  // Why io_uring was not taken, when --io=auto fell back; else empty.
  const std::string& io_fallback() const { return io_fallback_; }
  MetricsRegistry& metrics() { return registry_; }

 private:
  Node() = default;
  Status Open(const NodeConfig& config);
  io::Task<Status> StartServer(DataServerOptions options);
  void Beat();
  NodeStatus Describe() const;

  MetricsRegistry registry_;
  EngineMetrics engine_metrics_{&registry_};
  ServerMetrics server_metrics_{&registry_};
  SystemRandom random_;
  TimePoint started_at_{};
  uint64_t incarnation_ = 0;
  std::string data_address_;
  std::string io_fallback_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<ShardEngine> engine_;
  std::unique_ptr<DataServer> server_;
  std::unique_ptr<io::Loop::Timer> beat_timer_;
  std::atomic<int64_t> last_beat_{0};  // nanoseconds of the monotonic clock
  bool stopped_ = false;
  std::unique_ptr<io::LoopThread> thread_;  // everything above is used on it
};

}  // namespace ember::kv
