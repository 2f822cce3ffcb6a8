#include "router/front/status_report.h"

#include <fmt/format.h>

#include "client/http/json_writer.h"

namespace ember::router {
namespace {

void AppendReplica(const ReplicaReport& r, std::string* out) {
  *out += fmt::format(
      R"({{"id":{},"http":{},"healthy":{},"why_unhealthy":{},"model":{},"agent_connected":{},)"
      R"("slots":{},"running":{},"waiting":{},"pending_prefill_tokens":{},"in_flight":{},)"
      R"("blocks_held":{},"load_tokens_per_ms":{:.3f},"prefill_ms_per_token":{:.4f},)",
      http::JsonString(r.id), http::JsonString(r.http_address), r.healthy,
      http::JsonString(r.why_unhealthy), http::JsonString(r.model), r.agent_connected,
      r.load.slots_total, r.load.running, r.load.waiting, r.load.pending_prefill_tokens,
      r.under_way, r.blocks_held, r.load_tokens_per_ms, r.prefill.linear_ms);
  *out += fmt::format(R"("requests":{},"routed":{{"local":{},"remote":{},"recompute":{}}},)"
                      R"("cached_tokens":{},"computed_tokens":{}}})",
                      r.totals.requests, r.totals.routed_local, r.totals.routed_remote,
                      r.totals.routed_recompute, r.totals.cached_tokens, r.totals.computed_tokens);
}

}  // namespace

StatusReport StatusReport::Of(const ReplicaSet& replicas, const PrefixIndex& index) {
  StatusReport report;
  report.index_blocks = index.blocks();
  for (ReplicaNumber n = 0; n < replicas.size(); ++n) {
    const ReplicaSet::Member& m = replicas.at(n);
    report.replicas.push_back({.id = m.config.id,
                               .http_address = m.config.http.ToString(),
                               .healthy = m.view.healthy,
                               .why_unhealthy = m.health.why(),
                               .model = m.model,
                               .agent_connected = m.agent_connected,
                               .load = m.view.load,
                               .under_way = m.under_way(),
                               .blocks_held = index.blocks_held(n),
                               .load_tokens_per_ms = m.view.load_tokens_per_ms,
                               .prefill = m.view.prefill,
                               .totals = m.totals});
  }
  return report;
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
