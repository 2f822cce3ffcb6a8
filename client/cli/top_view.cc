#include "client/cli/top_view.h"

#include <fmt/format.h>

#include <cmath>

#include "client/cli/text.h"

namespace ember::cli {
namespace {

constexpr double kQuantile = 0.99;
constexpr size_t kBarCells = 10;

double QuantileOf(const ShardSample& before, const ShardSample& now) {
  if (now.get_buckets.size() != now.get_bounds.size() + 1 ||
      before.get_buckets.size() != now.get_buckets.size()) {
    return -1;
  }
  double total = 0;
  for (size_t i = 0; i < now.get_buckets.size(); ++i) {
    total += static_cast<double>(now.get_buckets[i] - before.get_buckets[i]);
  }
  if (total <= 0) return -1;
  double seen = 0;
  for (size_t i = 0; i < now.get_bounds.size(); ++i) {
    seen += static_cast<double>(now.get_buckets[i] - before.get_buckets[i]);
    if (seen >= kQuantile * total) return now.get_bounds[i];
  }
  return INFINITY;
}

const NodeSample* Before(const std::vector<NodeSample>& before, size_t node) {
  return node < before.size() ? &before[node] : nullptr;
}

ShardRates RatesAt(const std::vector<NodeSample>& before, const std::vector<NodeSample>& now,
                   size_t node, size_t shard) {
  const NodeSample* then = Before(before, node);
  return then == nullptr ? ShardRates() : RatesOf(*then, now[node], shard);
}

std::string FillText(uint64_t used, uint64_t capacity) {
  if (capacity == 0) return "none";
  return BarText(used, capacity, kBarCells) + " " + ShareText(used, capacity) + " of " +
         ByteText(capacity);
}

std::string DiskText(const ShardSample& shard) {
  const std::string fill = FillText(shard.disk_used, shard.disk_capacity);
  return shard.disk_degraded ? fill + " DEGRADED" : fill;
}

std::string RateText(double bytes) { return ByteText(static_cast<uint64_t>(bytes)) + "/s"; }

std::string P99Text(double value) {
  if (value < 0) return "-";
  return std::isinf(value) ? "over 100 s" : fmt::format("{:g} ms", value * 1000);
}

std::string ShardJson(size_t number, const ShardSample& shard, const ShardRates& rates) {
  JsonObject object;
  object.Add("shard", uint64_t{number})
      .Add("memory_used_bytes", shard.memory_used)
      .Add("memory_capacity_bytes", shard.memory_capacity)
      .Add("disk_used_bytes", shard.disk_used)
      .Add("disk_capacity_bytes", shard.disk_capacity)
      .Add("disk_degraded", shard.disk_degraded)
      .Add("segments", shard.segments)
      .Add("disk_segments", shard.disk_segments)
      .Add("leases", shard.leases)
      .Add("puts_open", shard.puts_open)
      .Add("connections", shard.connections)
      .Add("corruptions", shard.corruptions);
  if (rates.seconds <= 0) return object.ToString();
  object.Add("seconds", rates.seconds)
      .Add("bytes_in_per_second", rates.in)
      .Add("bytes_out_per_second", rates.out)
      .Add("evictions_per_second", rates.evictions);
  if (rates.hit_ratio >= 0) object.Add("hit_ratio", rates.hit_ratio);
  if (rates.get_p99 >= 0) object.Add("get_p99_seconds", rates.get_p99);
  return object.ToString();
}

}  // namespace

ShardRates RatesOf(const NodeSample& before, const NodeSample& now, size_t shard) {
  ShardRates rates;
  if (!before.status.ok() || !now.status.ok() || before.incarnation != now.incarnation ||
      shard >= before.shards.size()) {
    return rates;
  }
  const ShardSample &a = before.shards[shard], &b = now.shards[shard];
  rates.seconds = std::chrono::duration<double>(now.at - before.at).count();
  if (rates.seconds <= 0) return ShardRates();
  const auto rate = [&](uint64_t from, uint64_t to) {
    return static_cast<double>(to - from) / rates.seconds;
  };
  const uint64_t hits = b.hits - a.hits, asked = hits + b.misses - a.misses;
  if (asked > 0) rates.hit_ratio = static_cast<double>(hits) / static_cast<double>(asked);
  rates.in = rate(a.bytes_in, b.bytes_in);
  rates.out = rate(a.bytes_out, b.bytes_out);
  rates.evictions = rate(a.evictions, b.evictions);
  rates.get_p99 = QuantileOf(a, b);
  return rates;
}

std::string TopTable(const std::vector<NodeSample>& before, const std::vector<NodeSample>& now) {
  TextTable table({"NODE", "SHARD", "HIT RATIO", "IN", "OUT", "MEMORY", "DISK", "SEGMENTS",
                   "EVICTED/S", "LEASES", "PUTS", "GET P99", "CLIENTS"});
  std::string silent;
  for (size_t n = 0; n < now.size(); ++n) {
    const NodeSample& node = now[n];
    if (!node.status.ok()) {
      silent += fmt::format("  {}  unreachable: {}\n", node.address, node.status.message());
      continue;
    }
    for (size_t i = 0; i < node.shards.size(); ++i) {
      const ShardSample& shard = node.shards[i];
      const ShardRates rates = RatesAt(before, now, n, i);
      table.Add({node.node_id, std::to_string(i),
                 rates.hit_ratio < 0 ? "-" : fmt::format("{:.1f}%", rates.hit_ratio * 100),
                 RateText(rates.in), RateText(rates.out),
                 FillText(shard.memory_used, shard.memory_capacity), DiskText(shard),
                 CountText(shard.segments), fmt::format("{:.0f}", rates.evictions),
                 CountText(shard.leases), CountText(shard.puts_open), P99Text(rates.get_p99),
                 CountText(shard.connections)});
    }
  }
  return table.ToString() + silent;
}

std::string TopJson(const std::vector<NodeSample>& before, const std::vector<NodeSample>& now) {
  std::vector<std::string> nodes;
  for (size_t n = 0; n < now.size(); ++n) {
    const NodeSample& node = now[n];
    JsonObject object;
    object.Add("grpc", node.address).Add("reachable", node.status.ok());
    if (node.status.ok()) {
      std::vector<std::string> shards;
      for (size_t i = 0; i < node.shards.size(); ++i) {
        shards.push_back(ShardJson(i, node.shards[i], RatesAt(before, now, n, i)));
      }
      object.Add("node_id", node.node_id).AddRaw("shards", JsonArray(shards));
    } else {
      object.Add("error", node.status.message());
    }
    nodes.push_back(object.ToString());
  }
  return JsonObject().AddRaw("nodes", JsonArray(nodes)).ToString();
}

}  // namespace ember::cli
