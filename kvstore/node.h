// Node: one storage node without its control plane: its shards.
//
// Concurrency: any thread but the shards'. Life: the destructor stops without grace.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kvstore/config.h"
#include "kvstore/disk/directory_lock.h"
#include "kvstore/shard.h"

namespace ember::kv {

class Node {
 public:
  // Makes the catalog of a data directory's folder; `*lost` says why an earlier one is not used any
  // more.
  using CatalogMaker =
      std::function<Result<std::unique_ptr<Catalog>>(const std::string& folder, std::string* lost)>;

  // Takes the memory and what is in the data directory, and listens. Errors name the flag at fault.
  // `make_catalog` is called if there is a data directory.
  static Result<std::unique_ptr<Node>> Start(const NodeConfig& config,
                                             const CatalogMaker& make_catalog = nullptr);
  ~Node();

  // Takes no new connection, answers what has arrived within `grace`, then writes what is not on
  // disk yet within `flush_grace`. GetStatus still works then. Idempotent.
  void Stop(Duration grace, Duration flush_grace = {});

  // Asked of the shards' threads: kDeadline when one does not answer in time.
  Result<NodeStatus> GetStatus(Duration timeout);
  // Whether all threads have come round within the last seconds. Never waits.
  bool alive() const;

  const std::string& data_address() const { return data_address_; }
  std::string_view io_backend() const { return shards_.front()->io_backend(); }
  // Why io_uring was not taken, when --io=auto fell back; else empty.
  const std::string& io_fallback() const { return shards_.front()->io_fallback(); }
  const std::vector<std::unique_ptr<Shard>>& shards() const { return shards_; }
  // For the control plane's threads; by number.
  std::vector<ShardDoor> doors() const;
  uint64_t incarnation() const { return incarnation_; }
  MetricsRegistry& metrics() { return registry_; }

 private:
  explicit Node(const NodeConfig& config);
  Status MakeShards();
  Status OpenDisk(const CatalogMaker& make_catalog);
  Status OpenDoor();
  Status Listen();

  const NodeConfig config_;
  MetricsRegistry registry_;
  const TimePoint started_at_;
  uint64_t incarnation_ = 0;
  std::string data_address_;
  std::unique_ptr<DirectoryLock> directory_lock_;
  std::unique_ptr<DiskMetrics> disk_metrics_;
  std::unique_ptr<Catalog> catalog_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::unique_ptr<ArenaDoor> door_;  // with --shm
};

}  // namespace ember::kv
