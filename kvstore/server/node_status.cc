#include "kvstore/server/node_status.h"

namespace ember::kv {

ShardStatus& ShardStatus::operator+=(const ShardStatus& other) {
  memory_capacity_bytes += other.memory_capacity_bytes;
  memory_used_bytes += other.memory_used_bytes;
  segments += other.segments;
  hits += other.hits;
  misses += other.misses;
  evictions += other.evictions;
  corruptions += other.corruptions;
  connections += other.connections;
  bytes_in += other.bytes_in;
  bytes_out += other.bytes_out;
  disk_capacity_bytes += other.disk_capacity_bytes;
  disk_used_bytes += other.disk_used_bytes;
  disk_segments += other.disk_segments;
  disk_degraded |= other.disk_degraded;
  leases += other.leases;
  puts_open += other.puts_open;
  shm_gets += other.shm_gets;
  shm_bytes += other.shm_bytes;
  return *this;
}

}  // namespace ember::kv
