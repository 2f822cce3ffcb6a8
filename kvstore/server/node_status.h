// NodeStatus: what a storage node says of itself. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/wire/messages.h"

namespace ember::kv {

// A histogram's counts: of each bucket, not cumulative, one more than bounds (seconds, ascending).
struct LatencyBuckets {
  std::vector<double> bounds;
  std::vector<uint64_t> counts;
};

struct ShardStatus {
  uint64_t memory_capacity_bytes = 0;
  uint64_t memory_used_bytes = 0;
  uint64_t segments = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t evictions = 0;
  uint64_t corruptions = 0;
  uint32_t connections = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  uint64_t leases = 0;
  uint64_t puts_open = 0;
  uint64_t shm_gets = 0;   // segments read in place by clients on this host
  uint64_t shm_bytes = 0;  // of their payloads, which are not in bytes_out
  // Zero without a disk tier.
  uint64_t disk_capacity_bytes = 0;
  uint64_t disk_used_bytes = 0;
  uint64_t disk_segments = 0;
  bool disk_degraded = false;  // takes nothing now; of a sum: any
  LatencyBuckets gets;         // not in a sum of shards

  ShardStatus& operator+=(const ShardStatus& other);
};

struct NodeStatus {
  std::string node_id;
  uint64_t incarnation = 0;
  double uptime_seconds = 0;
  std::string data_address;  // of the first shard
  std::string io_backend;
  ShardStatus total;
  std::vector<ShardStatus> shards;
  bool shm_offered = false;  // to clients on this host
  uint64_t shm_clients = 0;  // times that a shard's memory was handed to one
  uint64_t view_number = 0;
  std::vector<wire::Member> members;
};

}  // namespace ember::kv
