#include "router/front/status_report.h"

#include <fmt/format.h>

#include "client/http/json_writer.h"

namespace ember::router {
namespace {

void AppendReplica(const ReplicaReport& r, std::string* out) {
  *out += fmt::format(
      R"({{"id":{},"rank":{},"http":{},"state":"{}","healthy":{},"why_unhealthy":{},"model":{},"agent_connected":{},)"
      R"("slots":{},"running":{},"waiting":{},"pending_prefill_tokens":{},"in_flight":{},)"
      R"("blocks_held":{},"load_tokens_per_ms":{:.3f},"prefill_ms_per_token":{:.4f},)",
      http::JsonString(r.id), r.rank ? std::to_string(*r.rank) : "null",
      http::JsonString(r.http_address), r.state, r.healthy, http::JsonString(r.why_unhealthy),
      http::JsonString(r.model), r.agent_connected, r.load.slots_total, r.load.running,
      r.load.waiting, r.load.pending_prefill_tokens, r.under_way, r.blocks_held,
      r.load_tokens_per_ms, r.prefill.linear_ms);
  *out += fmt::format(R"("requests":{},"routed":{{"local":{},"remote":{},"recompute":{}}},)"
                      R"("cached_tokens":{},"computed_tokens":{}}})",
                      r.totals.requests, r.totals.routed_local, r.totals.routed_remote,
                      r.totals.routed_recompute, r.totals.cached_tokens, r.totals.computed_tokens);
}

// Ids are letters, digits and "._-".
std::string LabelsOf(const ReplicaReport& r) {
  return r.rank ? fmt::format("replica=\"{}\",rank=\"{}\"", r.id, *r.rank)
                : fmt::format("replica=\"{}\"", r.id);
}

using ReplicaValue = double (*)(const ReplicaReport&);

struct ReplicaMetric {
  const char* name;
  const char* type;
  const char* help;
  ReplicaValue value;
};

constexpr ReplicaMetric kReplicaMetrics[] = {
    {"up", "gauge", "1: the replica is sent requests",
     [](const ReplicaReport& r) { return r.healthy ? 1.0 : 0.0; }},
    {"in_flight", "gauge", "Requests of this router under way there",
     [](const ReplicaReport& r) { return static_cast<double>(r.under_way); }},
    {"running", "gauge", "Requests that it computes, as it reports",
     [](const ReplicaReport& r) { return static_cast<double>(r.load.running); }},
    {"waiting", "gauge", "Requests that wait there, as it reports",
     [](const ReplicaReport& r) { return static_cast<double>(r.load.waiting); }},
    {"pending_prefill_tokens", "gauge", "Prompt tokens not yet computed there, as it reports",
     [](const ReplicaReport& r) { return static_cast<double>(r.load.pending_prefill_tokens); }},
    {"blocks_held", "gauge", "Blocks that the index knows there",
     [](const ReplicaReport& r) { return static_cast<double>(r.blocks_held); }},
    {"requests_total", "counter", "Requests that it answered",
     [](const ReplicaReport& r) { return static_cast<double>(r.totals.requests); }},
    {"cached_tokens_total", "counter", "Prompt tokens reused, as the engine counted",
     [](const ReplicaReport& r) { return static_cast<double>(r.totals.cached_tokens); }},
    {"computed_tokens_total", "counter", "Prompt tokens computed, as the engine counted",
     [](const ReplicaReport& r) { return static_cast<double>(r.totals.computed_tokens); }},
};

}  // namespace

StatusReport StatusReport::Of(const ReplicaSet& replicas, const PrefixIndex& index) {
  StatusReport report;
  report.index_blocks = index.blocks();
  for (const ReplicaNumber n : replicas.numbers()) {
    const ReplicaSet::Member& m = replicas.at(n);
    report.replicas.push_back({.id = m.config.id,
                               .rank = m.view.rank,
                               .http_address = m.config.http.ToString(),
                               .state = std::string(m.endpoint->state()),
                               .healthy = m.view.healthy,
                               .why_unhealthy = m.endpoint->health.why(),
                               .model = m.endpoint->model,
                               .agent_connected = m.endpoint->agent_connected,
                               .load = m.view.load,
                               .under_way = m.under_way(),
                               .blocks_held = index.blocks_held(m.holder),
                               .load_tokens_per_ms = m.view.load_tokens_per_ms,
                               .prefill = m.view.prefill,
                               .totals = m.totals});
    if (n == m.endpoint->members.front()) report.replicas.back().ejections = m.endpoint->ejections;
  }
  return report;
}

std::string StatusReport::PrometheusText() const {
  std::string out;
  for (const ReplicaMetric& m : kReplicaMetrics) {
    out += fmt::format("# HELP ember_router_replica_{0} {1}\n# TYPE ember_router_replica_{0} {2}\n",
                       m.name, m.help, m.type);
    for (const ReplicaReport& r : replicas) {
      out += fmt::format("ember_router_replica_{}{{{}}} {}\n", m.name, LabelsOf(r), m.value(r));
    }
  }
  out +=
      "# HELP ember_router_replica_ejections_total Times that it was put out\n"
      "# TYPE ember_router_replica_ejections_total counter\n";
  for (const ReplicaReport& r : replicas) {
    for (size_t i = 0; i < kEjectionReasons; ++i) {
      if (r.ejections[i] == 0) continue;
      out +=
          fmt::format("ember_router_replica_ejections_total{{replica=\"{}\",reason=\"{}\"}} {}\n",
                      r.id, EjectionName(static_cast<Ejection>(i)), r.ejections[i]);
    }
  }
  return out;
}

std::string StatusReport::Json() const {
  std::string out = fmt::format(
      R"({{"version":"{}","default_policy":{},"uptime_seconds":{:.1f},"index_blocks":{},"replicas":[)",
      EMBER_VERSION, http::JsonString(default_policy), uptime_seconds, index_blocks);
  for (size_t i = 0; i < replicas.size(); ++i) {
    if (i > 0) out += ',';
    AppendReplica(replicas[i], &out);
  }
  return out + "]}";
}

}  // namespace ember::router
