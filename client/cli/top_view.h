// TopView: what `ember top` shows: the difference of two samples of the nodes' counters as rates.
// Pure functions, any thread.
#pragma once

#include <string>
#include <vector>

#include "proto/base/status.h"
#include "proto/base/time.h"

namespace ember::cli {

// A shard's counters and gauges at one time.
struct ShardSample {
  uint64_t memory_used = 0, memory_capacity = 0;  // bytes
  uint64_t disk_used = 0, disk_capacity = 0;      // bytes; capacity 0: no disk tier
  bool disk_degraded = false;                     // takes no writes now
  uint64_t segments = 0, disk_segments = 0;
  uint64_t hits = 0, misses = 0, evictions = 0, corruptions = 0;
  uint64_t bytes_in = 0, bytes_out = 0;
  uint64_t leases = 0, puts_open = 0, connections = 0;
  std::vector<double> get_bounds;     // seconds
  std::vector<uint64_t> get_buckets;  // one more than bounds
};

struct NodeSample {
  std::string address;
  Status status;  // not ok: the node did not answer, and nothing below is set
  std::string node_id;
  uint64_t incarnation = 0;
  TimePoint at;
  std::vector<ShardSample> shards;
};

// What happened between two samples, a second.
struct ShardRates {
  double seconds = 0;      // between them; 0: nothing to compare with
  double hit_ratio = -1;   // -1: nobody asked
  double in = 0, out = 0;  // bytes
  double evictions = 0;
  double get_p99 = -1;  // seconds: the upper bound of the bucket it lies in; -1: no gets
};

// Nothing (seconds 0) when the node restarted in between.
ShardRates RatesOf(const NodeSample& before, const NodeSample& now, size_t shard);

// One row a shard; `before` as many nodes in the same order, or empty.
std::string TopTable(const std::vector<NodeSample>& before, const std::vector<NodeSample>& now);
// One line: {"nodes":[...]}.
std::string TopJson(const std::vector<NodeSample>& before, const std::vector<NodeSample>& now);

}  // namespace ember::cli
