#include "router/front/status_report.h"

#include <fmt/format.h>

#include <map>

#include "client/http/json_object.h"
#include "client/http/json_writer.h"

namespace ember::router {
namespace {

// The page asks for it again and again, and a replica may have hundreds of adapters.
constexpr size_t kMaxModelsShown = 32;

std::string ModelsJson(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const std::string& name : names) {
    if (out.size() < kMaxModelsShown) out.push_back(http::JsonString(name));
  }
  return http::JsonArray(out);
}

std::string ReplicaJson(const ReplicaReport& r) {
  const std::string routed = http::JsonObject()
                                 .Add("local", r.totals.routed_local)
                                 .Add("remote", r.totals.routed_remote)
                                 .Add("recompute", r.totals.routed_recompute)
                                 .ToString();
  const std::string by_tier = http::JsonObject()
                                  .Add("device", r.held.device)
                                  .Add("host", r.held.host)
                                  .Add("disk", r.held.disk)
                                  .ToString();
  http::JsonObject out;
  out.Add("id", r.id);
  if (r.rank) out.Add("rank", *r.rank);
  out.Add("http", r.http_address)
      .Add("state", r.state)
      .Add("healthy", r.healthy)
      .Add("why_unhealthy", r.why_unhealthy)
      .Add("model", r.model)
      .AddRaw("models", ModelsJson(*r.models))
      .Add("model_count", r.models->size())
      .Add("agent_connected", r.agent_connected)
      .Add("slots", r.load.slots_total)
      .Add("running", r.load.running)
      .Add("waiting", r.load.waiting)
      .Add("pending_prefill_tokens", r.load.pending_prefill_tokens)
      .Add("kv_usage", r.load.kv_usage)
      .Add("in_flight", r.under_way)
      .Add("events", r.events)
      .Add("blocks_held", r.held.any)
      .AddRaw("blocks_by_tier", by_tier)
      .Add("cache_capacity_tokens", r.cache.capacity_tokens)
      .Add("cache_held_tokens", r.cache.held_tokens)
      .Add("load_tokens_per_ms", r.load_tokens_per_ms)
      .Add("prefill_ms_per_token", r.prefill.linear_ms)
      .Add("requests", r.totals.requests)
      .AddRaw("routed", routed)
      .Add("cached_tokens", r.totals.cached_tokens)
      .Add("computed_tokens", r.totals.computed_tokens);
  return out.ToString();
}

std::string StoreJson(const StoreReport& s) {
  return http::JsonObject()
      .Add("address", s.address)
      .Add("connected", s.connected)
      .Add("current", s.current)
      .Add("segments", s.segments)
      .Add("why", s.why)
      .ToString();
}

const char* ParityName(TokenizerReport::Parity parity) {
  switch (parity) {
    case TokenizerReport::Parity::kEqual:
      return "equal";
    case TokenizerReport::Parity::kDiffers:
      return "differs";
    case TokenizerReport::Parity::kUnknown:
      break;
  }
  return "not_compared";
}

std::string TokenizerJson(const TokenizerReport& t) {
  std::vector<std::string> models;
  for (const TokenizerReport::Model& m : t.models) {
    models.push_back(http::JsonObject()
                         .Add("model", m.model)
                         .Add("library", m.fast ? "fastokens" : "tokenizers")
                         .Add("vocabulary", m.ids)
                         .Add("cuts", m.cuts)
                         .Add("chat_template", m.has_template)
                         .Add("parity", ParityName(m.parity))
                         .Add("trusted", m.parity != TokenizerReport::Parity::kDiffers)
                         .ToString());
  }
  http::JsonObject prompts;
  for (size_t i = 0; i < t.prompts.size(); ++i) {
    prompts.Add(TokenSourceName(static_cast<TokenSource>(i)), t.prompts[i]);
  }
  return http::JsonObject()
      .AddRaw("models", http::JsonArray(models))
      .Add("cache_bytes", t.cache_bytes)
      .Add("cache_max_bytes", t.cache_max_bytes)
      .Add("known_prompt_bytes", t.known_bytes)
      .Add("new_prompt_bytes", t.new_bytes)
      .AddRaw("prompts", prompts.ToString())
      .ToString();
}

// Addresses are HOST:PORT, checked when they were given.
void AppendStores(const std::vector<StoreReport>& stores, std::string* out) {
  if (stores.empty()) return;
  *out +=
      "# HELP ember_router_store_current 1: all that the node holds is known\n"
      "# TYPE ember_router_store_current gauge\n";
  for (const StoreReport& s : stores) {
    *out += fmt::format("ember_router_store_current{{store=\"{}\"}} {}\n", s.address,
                        s.current ? 1 : 0);
  }
  *out +=
      "# HELP ember_router_store_segments Segments that the node holds\n"
      "# TYPE ember_router_store_segments gauge\n";
  for (const StoreReport& s : stores) {
    *out += fmt::format("ember_router_store_segments{{store=\"{}\"}} {}\n", s.address, s.segments);
  }
}

// Ids are letters, digits and "._-".
std::string LabelsOf(const ReplicaReport& r) {
  return r.rank ? fmt::format("replica=\"{}\",rank=\"{}\"", r.id, *r.rank)
                : fmt::format("replica=\"{}\"", r.id);
}

void AppendTiers(const std::vector<ReplicaReport>& replicas, std::string* out) {
  *out +=
      "# HELP ember_router_replica_tier_blocks Blocks that the index knows there, by where they "
      "lie\n# TYPE ember_router_replica_tier_blocks gauge\n";
  for (const ReplicaReport& r : replicas) {
    for (const auto& [tier, blocks] :
         {std::pair("device", r.held.device), {"host", r.held.host}, {"disk", r.held.disk}}) {
      *out += fmt::format("ember_router_replica_tier_blocks{{{},tier=\"{}\"}} {}\n", LabelsOf(r),
                          tier, blocks);
    }
  }
}

void AppendEvents(const std::vector<ReplicaReport>& replicas, std::string* out) {
  *out +=
      "# HELP ember_router_replica_events_whole 1: all that it holds is known from its KV events\n"
      "# TYPE ember_router_replica_events_whole gauge\n";
  for (const ReplicaReport& r : replicas) {
    if (r.events == "none") continue;
    *out += fmt::format("ember_router_replica_events_whole{{{}}} {}\n", LabelsOf(r),
                        r.events == "whole" ? 1 : 0);
  }
  *out +=
      "# HELP ember_router_replica_events_connected 1: its KV events can be heard\n"
      "# TYPE ember_router_replica_events_connected gauge\n";
  for (const ReplicaReport& r : replicas) {
    if (r.events == "none") continue;
    *out += fmt::format("ember_router_replica_events_connected{{{}}} {}\n", LabelsOf(r),
                        r.events == "unreachable" ? 0 : 1);
  }
}

std::shared_ptr<const std::vector<std::string>> NamesOf(const ModelList& list) {
  auto names = std::make_shared<std::vector<std::string>>();
  for (const ServedModel& model : list.models) names->push_back(model.name);
  return names;
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
    {"kv_usage_ratio", "gauge", "Share of its cache that running requests hold, as it reports",
     [](const ReplicaReport& r) { return r.load.kv_usage; }},
    {"blocks_held", "gauge", "Blocks that the index knows there",
     [](const ReplicaReport& r) { return static_cast<double>(r.held.any); }},
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
  report.index_bytes = index.bytes();
  std::map<const Endpoint*, std::shared_ptr<const std::vector<std::string>>> models_of;
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
                               .load = m.reported(),
                               .under_way = m.under_way(),
                               .holder = m.holder,
                               .held = index.held(m.holder),
                               .events = "none",
                               .cache = m.view.cache,
                               .load_tokens_per_ms = m.view.load_tokens_per_ms,
                               .prefill = m.view.prefill,
                               .totals = m.totals});
    ReplicaReport& told = report.replicas.back();
    auto& models = models_of[m.endpoint.get()];
    if (models == nullptr) {
      models = NamesOf(replicas.models().ListOf(m.endpoint->members.front()));
      told.ejections = m.endpoint->ejections;
      told.refusals = m.endpoint->refusals.count();
    }
    told.models = models;
    if (told.model.empty() && !models->empty()) told.model = models->front();
  }
  return report;
}

std::string StatusReport::PrometheusText() const {
  std::string out = fmt::format(
      "# HELP ember_router_index_bytes Memory of the prefix index\n"
      "# TYPE ember_router_index_bytes gauge\nember_router_index_bytes {}\n",
      index_bytes);
  for (const ReplicaMetric& m : kReplicaMetrics) {
    out += fmt::format("# HELP ember_router_replica_{0} {1}\n# TYPE ember_router_replica_{0} {2}\n",
                       m.name, m.help, m.type);
    for (const ReplicaReport& r : replicas) {
      out += fmt::format("ember_router_replica_{}{{{}}} {}\n", m.name, LabelsOf(r), m.value(r));
    }
  }
  AppendTiers(replicas, &out);
  AppendEvents(replicas, &out);
  out +=
      "# HELP ember_router_replica_ejections_total Times that it was put out\n"
      "# TYPE ember_router_replica_ejections_total counter\n";
  for (const ReplicaReport& r : replicas) {
    for (size_t i = 0; r.ejections && i < kEjectionReasons; ++i) {
      out +=
          fmt::format("ember_router_replica_ejections_total{{replica=\"{}\",reason=\"{}\"}} {}\n",
                      r.id, EjectionName(static_cast<Ejection>(i)), (*r.ejections)[i]);
    }
  }
  out +=
      "# HELP ember_router_replica_refusals_total Requests that it refused and another took\n"
      "# TYPE ember_router_replica_refusals_total counter\n";
  for (const ReplicaReport& r : replicas) {
    if (!r.ejections) continue;
    out +=
        fmt::format("ember_router_replica_refusals_total{{replica=\"{}\"}} {}\n", r.id, r.refusals);
  }
  out +=
      "# HELP ember_router_fleet_source_trouble 1: not all that it says of the fleet is taken\n"
      "# TYPE ember_router_fleet_source_trouble gauge\n";
  for (const auto& [source, trouble] : fleet_sources) {
    out += fmt::format("ember_router_fleet_source_trouble{{source=\"{}\"}} {}\n", source,
                       trouble ? 1 : 0);
  }
  AppendStores(stores, &out);
  return out;
}

std::string StatusReport::Json() const {
  std::vector<std::string> list, nodes;
  for (const ReplicaReport& r : replicas) list.push_back(ReplicaJson(r));
  for (const StoreReport& s : stores) nodes.push_back(StoreJson(s));
  return http::JsonObject()
      .Add("version", EMBER_VERSION)
      .Add("default_policy", default_policy)
      .Add("uptime_seconds", uptime_seconds)
      .Add("stopping", stopping)
      .Add("waiting", waiting)
      .Add("index_blocks", index_blocks)
      .Add("index_bytes", index_bytes)
      .AddRaw("replicas", http::JsonArray(list))
      .AddRaw("stores", http::JsonArray(nodes))
      .AddRaw("tokenizer", TokenizerJson(tokenizer))
      .ToString();
}

}  // namespace ember::router
