// ember status: nodes and replicas at a glance.
#include <fmt/format.h>

#include <cstdio>
#include <future>

#include "client/cli/command.h"
#include "client/cli/control_client.h"
#include "client/cli/text.h"

namespace ember::cli {
namespace {

struct StatusFlags {
  std::string stores = EnvironmentOr(kStoreGrpcVariable, "127.0.0.1:7201");
  bool stores_named = !EnvironmentOr(kStoreGrpcVariable, "").empty();
  std::string router = EnvironmentOr(kRouterGrpcVariable, "127.0.0.1:8081");
  double timeout_seconds = 2;
  bool json = false;
};

using StoreStatuses = std::vector<Result<rpc::StoreStatus>>;

Duration SecondsDuration(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

struct DiskFill {
  uint64_t used = 0, capacity = 0;
  std::string degraded;  // a line for each shard whose disk takes no writes
};

DiskFill DiskOf(const rpc::StoreStatus& status) {
  DiskFill disk;
  for (int i = 0; i < status.shards_size(); ++i) {
    const rpc::StoreShard& shard = status.shards(i);
    disk.used += shard.disk_used_bytes();
    disk.capacity += shard.disk_capacity_bytes();
    if (!shard.disk_degraded()) continue;
    disk.degraded += fmt::format("  {} shard {}: the disk takes no writes\n", status.node_id(), i);
  }
  return disk;
}

uint64_t LeasesOf(const rpc::StoreStatus& status) {
  uint64_t leases = 0;
  for (const rpc::StoreShard& shard : status.shards()) leases += shard.leases();
  return leases;
}

// What clients on the node's host read in its memory.
std::string InPlaceText(const rpc::StoreStatus& status) {
  if (!status.shm_offered()) return "off";
  uint64_t bytes = 0;
  for (const rpc::StoreShard& shard : status.shards()) bytes += shard.shm_bytes();
  return ByteText(bytes);
}

std::string ShardJson(const rpc::StoreShard& s) {
  JsonObject object;
  return object.Add("memory_capacity_bytes", uint64_t{s.memory_capacity_bytes()})
      .Add("memory_used_bytes", uint64_t{s.memory_used_bytes()})
      .Add("disk_capacity_bytes", uint64_t{s.disk_capacity_bytes()})
      .Add("disk_used_bytes", uint64_t{s.disk_used_bytes()})
      .Add("disk_degraded", s.disk_degraded())
      .Add("segments", uint64_t{s.segments()})
      .Add("disk_segments", uint64_t{s.disk_segments()})
      .Add("hits", uint64_t{s.hits()})
      .Add("misses", uint64_t{s.misses()})
      .Add("evictions", uint64_t{s.evictions()})
      .Add("leases", uint64_t{s.leases()})
      .Add("puts_open", uint64_t{s.puts_open()})
      .Add("shm_gets", uint64_t{s.shm_gets()})
      .Add("shm_bytes", uint64_t{s.shm_bytes()})
      .ToString();
}

// `expected`: somebody named their addresses, or there is nothing else.
void PrintStores(const std::vector<io::Endpoint>& addresses, const StoreStatuses& stores,
                 bool expected) {
  TextTable table({"NODE", "DATA", "UP", "SHARDS", "FILL", "DISK", "SEGMENTS", "HITS", "HIT RATE",
                   "EVICTED", "CORRUPT", "CLIENTS", "LEASES", "FEEDS", "IN", "OUT", "IN PLACE",
                   "IO"});
  std::string degraded;
  for (const auto& store : stores) {
    if (!store.ok()) continue;
    const rpc::StoreStatus& s = *store;
    const uint64_t used = s.memory_used_bytes(), capacity = s.memory_capacity_bytes();
    const DiskFill disk = DiskOf(s);
    degraded += disk.degraded;
    table.Add({s.node_id(), s.data_address(), DurationText(SecondsDuration(s.uptime_seconds())),
               CountText(static_cast<uint64_t>(s.shards_size())),
               BarText(used, capacity, 10) + " " + ShareText(used, capacity) + " of " +
                   ByteText(capacity),
               disk.capacity == 0
                   ? "none"
                   : ShareText(disk.used, disk.capacity) + " of " + ByteText(disk.capacity),
               CountText(s.segments()), CountText(s.hits()),
               ShareText(s.hits(), s.hits() + s.misses()), CountText(s.evictions()),
               CountText(s.corruptions()), CountText(s.connections()), CountText(LeasesOf(s)),
               CountText(s.feed_readers()), ByteText(s.bytes_in()), ByteText(s.bytes_out()),
               InPlaceText(s), s.io_backend()});
  }
  const auto up = std::ranges::count_if(stores, [](const auto& store) { return store.ok(); });
  if (up == 0 && !expected) {
    std::printf("STORE  none at %s; --store-grpc names others\n", addresses[0].ToString().c_str());
    return;
  }
  std::printf("STORE  %td of %zu nodes reachable\n", up, stores.size());
  if (up > 0) std::printf("%s%s", table.ToString().c_str(), degraded.c_str());
  for (size_t i = 0; i < stores.size(); ++i) {
    if (stores[i].ok()) continue;
    std::printf("  %s  unreachable: %s\n", addresses[i].ToString().c_str(),
                std::string(stores[i].status().message()).c_str());
  }
}

void PrintRouter(const io::Endpoint& address, const Result<rpc::RouterStatus>& router) {
  if (!router.ok()) {
    std::printf("\nROUTER\n  %s  unreachable: %s\n", address.ToString().c_str(),
                std::string(router.status().message()).c_str());
    return;
  }
  std::printf("\nROUTER  %s %s, policy %s, %s blocks in its index, %d replicas\n",
              router->stopping() ? "STOPPING after" : "up",
              DurationText(SecondsDuration(router->uptime_seconds())).c_str(),
              router->default_policy().c_str(), CountText(router->index_blocks()).c_str(),
              router->replicas_size());
  if (router->replicas_size() == 0) return;
  TextTable table({"REPLICA", "HTTP", "STATE", "MODEL", "RUN", "WAIT", "IN FLIGHT", "BLOCKS",
                   "REQUESTS", "LOCAL", "REMOTE", "RECOMPUTE", "TOKENS REUSED"});
  for (const rpc::ReplicaStatus& r : router->replicas()) {
    table.Add({r.id(), r.http_address(), r.healthy() ? "up" : "DOWN",
               r.model().empty() ? "?" : r.model(), CountText(r.running()), CountText(r.waiting()),
               CountText(r.in_flight()), CountText(r.blocks_held()), CountText(r.requests()),
               CountText(r.routed_local()), CountText(r.routed_remote()),
               CountText(r.routed_recompute()),
               ShareText(r.cached_tokens(), r.cached_tokens() + r.computed_tokens())});
  }
  std::printf("%s", table.ToString().c_str());
}

std::string StoreJson(const io::Endpoint& address, const Result<rpc::StoreStatus>& store) {
  JsonObject object;
  object.Add("grpc", address.ToString()).Add("reachable", store.ok());
  if (!store.ok()) return object.Add("error", store.status().message()).ToString();
  const rpc::StoreStatus& s = *store;
  std::vector<std::string> shards;
  for (const rpc::StoreShard& shard : s.shards()) shards.push_back(ShardJson(shard));
  return object.Add("node_id", s.node_id())
      .Add("version", s.version())
      .Add("data", s.data_address())
      .Add("io", s.io_backend())
      .Add("uptime_seconds", s.uptime_seconds())
      .Add("memory_capacity_bytes", uint64_t{s.memory_capacity_bytes()})
      .Add("memory_used_bytes", uint64_t{s.memory_used_bytes()})
      .Add("segments", uint64_t{s.segments()})
      .Add("hits", uint64_t{s.hits()})
      .Add("misses", uint64_t{s.misses()})
      .Add("evictions", uint64_t{s.evictions()})
      .Add("corruptions", uint64_t{s.corruptions()})
      .Add("connections", uint64_t{s.connections()})
      .Add("bytes_in", uint64_t{s.bytes_in()})
      .Add("bytes_out", uint64_t{s.bytes_out()})
      .Add("view_number", uint64_t{s.view_number()})
      .Add("feed_readers", uint64_t{s.feed_readers()})
      .Add("shm_offered", s.shm_offered())
      .Add("shm_clients", uint64_t{s.shm_clients()})
      .AddRaw("shards", JsonArray(shards))
      .ToString();
}

std::string ReplicaJson(const rpc::ReplicaStatus& r) {
  JsonObject object;
  return object.Add("id", r.id())
      .Add("http", r.http_address())
      .Add("healthy", r.healthy())
      .Add("model", r.model())
      .Add("running", uint64_t{r.running()})
      .Add("waiting", uint64_t{r.waiting()})
      .Add("in_flight", uint64_t{r.in_flight()})
      .Add("blocks_held", uint64_t{r.blocks_held()})
      .Add("requests", uint64_t{r.requests()})
      .Add("routed_local", uint64_t{r.routed_local()})
      .Add("routed_remote", uint64_t{r.routed_remote()})
      .Add("routed_recompute", uint64_t{r.routed_recompute()})
      .Add("cached_tokens", uint64_t{r.cached_tokens()})
      .Add("computed_tokens", uint64_t{r.computed_tokens()})
      .ToString();
}

std::string RouterJson(const io::Endpoint& address, const Result<rpc::RouterStatus>& router) {
  JsonObject object;
  object.Add("grpc", address.ToString()).Add("reachable", router.ok());
  if (!router.ok()) return object.Add("error", router.status().message()).ToString();
  std::vector<std::string> replicas;
  for (const rpc::ReplicaStatus& replica : router->replicas()) {
    replicas.push_back(ReplicaJson(replica));
  }
  return object.Add("version", router->version())
      .Add("policy", router->default_policy())
      .Add("uptime_seconds", router->uptime_seconds())
      .Add("stopping", router->stopping())
      .Add("index_blocks", uint64_t{router->index_blocks()})
      .AddRaw("replicas", JsonArray(replicas))
      .ToString();
}

int ShowStatus(const StatusFlags& flags) {
  Result<std::vector<io::Endpoint>> addresses = ParseEndpoints(flags.stores);
  if (!addresses.ok()) return Complain(addresses.status().WithContext("--store-grpc")), kWrongUsage;
  Result<io::Endpoint> router_address = io::Endpoint::Parse(flags.router);
  if (!router_address.ok()) {
    return Complain(router_address.status().WithContext("--router-grpc")), kWrongUsage;
  }
  const Duration timeout = SecondsDuration(flags.timeout_seconds);
  auto asked_router = std::async(std::launch::async, FetchRouterStatus, *router_address, timeout);
  const StoreStatuses stores = FetchStoreStatuses(*addresses, timeout);
  const Result<rpc::RouterStatus> router = asked_router.get();
  // Many a router works without a store.
  const bool stores_expected = flags.stores_named || !router.ok();
  if (flags.json) {
    std::vector<std::string> nodes;
    for (size_t i = 0; i < stores.size(); ++i) {
      nodes.push_back(StoreJson((*addresses)[i], stores[i]));
    }
    JsonObject whole;
    whole.AddRaw("stores", JsonArray(nodes)).AddRaw("router", RouterJson(*router_address, router));
    std::printf("%s\n", whole.ToString().c_str());
  } else {
    PrintStores(*addresses, stores, stores_expected);
    PrintRouter(*router_address, router);
  }
  const bool stores_fine =
      !stores_expected || std::ranges::all_of(stores, [](const auto& s) { return s.ok(); });
  return router.ok() && stores_fine ? kDone : kFailed;
}

}  // namespace

void AddStatusCommand(CLI::App* app, int* exit_code) {
  static StatusFlags flags;
  CLI::App* status = app->add_subcommand("status", "Show nodes and replicas: fill, hits, load");
  status->footer(
      "Hit rate counts keys that match and get asked for. Tokens reused is the share that the "
      "engines\n"
      "did not have to compute again, as they counted it. In place is what clients on the node's "
      "host\n"
      "read in its memory (--shm=trusted), which is not in out.\n\n"
      "Examples:\n"
      "  ember status\n"
      "  ember status --store-grpc 10.0.0.1:7201,10.0.0.2:7201 --router-grpc 10.0.0.9:8081\n"
      "  watch -n1 ember status\n"
      "  ember status --json | jq .stores[].segments\n\n"
      "Exit codes: 0 all reachable, 1 something is not (of stores only such as were named),\n"
      "2 wrong usage.");
  CLI::Option* stores =
      status
          ->add_option("--store-grpc", flags.stores,
                       "Control addresses of the nodes, HOST:PORT,... (or $EMBER_STORE_GRPC)")
          ->capture_default_str();
  status
      ->add_option("--router-grpc", flags.router,
                   "Control address of the router (or $EMBER_ROUTER_GRPC)")
      ->capture_default_str();
  status->add_option("--timeout", flags.timeout_seconds, "Seconds to wait for each")
      ->check(Within(0.01, 60.0))
      ->capture_default_str();
  status->add_flag("--json", flags.json, "One JSON object");
  status->callback([exit_code, stores] {
    flags.stores_named |= stores->count() > 0;
    *exit_code = ShowStatus(flags);
  });
}

}  // namespace ember::cli
