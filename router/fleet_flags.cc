#include "router/fleet_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <set>

namespace ember::router {
namespace {

Status ReadReplicas(const std::vector<std::string>& texts, std::vector<ReplicaConfig>* out) {
  std::set<std::string> ids;
  for (const std::string& text : texts) {
    Result<ReplicaConfig> replica = ReplicaConfig::Parse(text);
    if (!replica.ok()) return replica.status().WithContext("--replica");
    if (!ids.insert(replica->id).second) {
      return InvalidError("--replica: \"" + replica->id + "\" is there twice");
    }
    if (Status key = replica->LoadKey(); !key.ok()) return key.WithContext("--replica");
    out->push_back(*std::move(replica));
  }
  return OkStatus();
}

bool IsLoopback(const std::string& host) {
  boost::system::error_code ec;
  const auto address = boost::asio::ip::make_address(host, ec);
  return !ec && address.is_loopback();
}

Status ReadAdmin(const FleetFlags& flags, AdminOptions* out) {
  if (!flags.admin_token_file.empty()) {
    // A replica's key and this token are kept alike.
    ReplicaConfig reader{.id = "admin", .key_file = flags.admin_token_file};
    if (!reader.LoadKey().ok()) {
      return InvalidError("--admin-token-file: no token in the first line of \"" +
                          flags.admin_token_file + "\"");
    }
    out->token = std::move(reader.key);
  }
  if (flags.admin == "off") {
    return out->token.empty() ? OkStatus() : InvalidError("--admin-token-file: --admin is off");
  }
  if (flags.admin == "door") {
    out->on_door = true;
    return out->token.empty() ? InvalidError("--admin=door: needs --admin-token-file") : OkStatus();
  }
  Result<http::Origin> address = ListenAddress("--admin", flags.admin);
  if (!address.ok()) return address.status();
  if (out->token.empty() && !flags.admin_without_token && !IsLoopback(address->host)) {
    return InvalidError("--admin: who reaches " + flags.admin +
                        " could change the fleet; name a token with --admin-token-file, listen on "
                        "127.0.0.1, or say --admin-without-token");
  }
  out->listen = *std::move(address);
  return OkStatus();
}

// The machine is enough where nobody else can ask, and a token guards what asks for it anywhere.
void ChooseDoorPages(const std::string& host, AdminOptions* admin) {
  admin->live_on_door = !admin->listen && IsLoopback(host);
  admin->explain_on_door = admin->live_on_door || !admin->token.empty();
}

}  // namespace

void FleetFlags::Declare(CLI::App& app) {
  const auto option = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->capture_default_str();
  };
  app.add_option("--replica", replicas,
                 "ID,http=HOST:PORT[,NAME=VALUE...]: an engine; repeat for each. NAME: grpc (its "
                 "agent), events, replay, host, model (may be several), key or key_file (for the "
                 "router's own questions; clients' requests carry the client's), ranks, weight, "
                 "max_concurrency (requests at once that this router sends; others do not count)");
  app.add_option(
      "--fleet-file", file,
      "more of them, \"ID http=HOST:PORT NAME=VALUE ...\" a line; followed as it changes");
  app.add_option(
      "--fleet-dns", dns,
      "NAME:PORT[,NAME=VALUE...]: one at each address of that name; {host} in a value is "
      "the address; repeat for each name");
  option("--fleet-dns-interval-ms", dns_interval_ms, "between two questions for such a name")
      ->check(CLI::Range(100, 3'600'000));
  option("--health-interval-ms", health_interval_ms, "between two probes of a replica")
      ->check(CLI::Range(10, 3'600'000));
  option("--health-timeout-ms", health_timeout_ms, "for a probe; three slow ones put it out")
      ->check(CLI::Range(10, 3'600'000));
  option("--health-path", health_path, "what a probe asks for");
  option("--load-interval-ms", load_interval_ms,
         "between two looks at the /metrics of a replica without an agent")
      ->check(CLI::Range(10, 3'600'000));
  option("--models-interval-ms", models_interval_ms,
         "between two looks at the /v1/models of a replica; 0: only model= says what it serves")
      ->check(CLI::Range(0, 86'400'000));
  option(
      "--admin", admin,
      "address of the admin API (/admin/replicas), and of /ui and the other pages; \"door\": all "
      "beside /v1, for a token");
  app.add_option("--admin-token-file", admin_token_file,
                 "the bearer token of the admin API is this file's first line");
  app.add_flag(
      "--admin-without-token", admin_without_token,
      "--admin may be reached from other hosts without a token: they can change the fleet");
  option(
      "--max-waiting", max_waiting,
      "requests that wait while every replica that serves their model is at its max_concurrency; "
      "more get 429")
      ->check(CLI::Range(size_t{0}, size_t{1} << 20));
  option("--queue-timeout-ms", queue_timeout_ms, "for a request to wait so; then 503")
      ->check(CLI::Range(1, 86'400'000));
  app.add_flag("--trust-tenant-header", trust_tenant_header,
               "waiting requests take turns by x-ember-tenant, not by their credential or address");
}

Status FleetFlags::Interpret(ServiceOptions* out) const {
  EMBER_RETURN_IF_ERROR(ReadReplicas(replicas, &out->replicas));
  EMBER_RETURN_IF_ERROR(ReadAdmin(*this, &out->admin));
  ChooseDoorPages(out->server.host, &out->admin);
  out->fleet_file = file;
  for (const std::string& text : dns) {
    Result<FleetDnsConfig> parsed = FleetDnsConfig::Parse(text);
    if (!parsed.ok()) return parsed.status().WithContext("--fleet-dns");
    parsed->interval = milliseconds(dns_interval_ms);
    const bool twice = std::ranges::any_of(out->fleet_dns, [&](const FleetDnsConfig& other) {
      return other.source() == parsed->source();
    });
    if (twice) return InvalidError("--fleet-dns: " + parsed->source() + " is there twice");
    out->fleet_dns.push_back(*std::move(parsed));
  }
  if (!health_path.starts_with('/') || health_path.find_first_of(" \r\n\t#") != std::string::npos) {
    return InvalidError("--health-path: starts with / and has no blank, line end, tab or #");
  }
  out->admission.max_waiting = max_waiting;
  out->admission.max_wait = milliseconds(queue_timeout_ms);
  out->router.trust_tenant_header = trust_tenant_header;
  out->load_interval = milliseconds(load_interval_ms);
  out->models_interval = milliseconds(models_interval_ms);
  out->health_path = health_path;
  out->health.probe_interval = milliseconds(health_interval_ms);
  out->health.probe_timeout = milliseconds(health_timeout_ms);
  return OkStatus();
}

Result<http::Origin> ListenAddress(const char* flag, const std::string& text) {
  Result<http::Origin> origin = http::Origin::Parse(text, /*any_port=*/true);
  if (!origin.ok()) return origin.status().WithContext(flag);
  if (origin->host == "localhost") origin->host = "127.0.0.1";
  boost::system::error_code ec;
  boost::asio::ip::make_address(origin->host, ec);
  if (!ec) return origin;
  return InvalidError(std::string(flag) + ": \"" + origin->host +
                      "\" is a name, and names are not looked up here: say which address, like "
                      "127.0.0.1 (this machine) or 0.0.0.0 (all networks)");
}

}  // namespace ember::router
