#include "router/config.h"

#include <CLI/CLI.hpp>
#include <cmath>

#include "router/fleet_flags.h"
#include "router/http_flags.h"
#include "router/policy/registry.h"
#include "router/tokenize_flags.h"

namespace ember::router {
namespace {

constexpr const char* kAbout =
    "ember-router is the OpenAI-compatible door to a fleet of inference engines: it sends each\n"
    "request to the replica where its first token is predicted to come soonest, because it knows\n"
    "what every replica and the store already hold, and streams the reply back byte for byte.";

constexpr const char* kFooter =
    "Policies (--policy, or x-ember-policy on one request):\n"
    "  cache_aware    least of queue + load from the store + prefill, in milliseconds\n"
    "  prefix         the longest prefix in a replica's own memory\n"
    "  sticky         by X-Conversation-Id, consistent hashing with bounded load\n"
    "  least_loaded   fewest requests; power_of_two: the less loaded of two drawn by chance\n"
    "  round_robin, random\n"
    "?sticky=0 on a request is random, ?sticky=1 is sticky. x-ember-pin: ID forces a replica.\n"
    "Replies say where they come from: x-ember-replica, x-ember-route (local, remote or "
    "recompute),\n"
    "x-ember-cached-tokens, x-ember-predicted-ttft-ms, x-ember-request-id.\n"
    "\n"
    "Besides what goes to replicas: /v1/models of the whole fleet, /health, /metrics, /ui,\n"
    "/admin/status, /admin/explain?id=REQUEST_ID&n=COUNT. The last three tell of others' "
    "requests:\n"
    "beyond loopback, or with an address of --admin, they are answered there only; with\n"
    "--admin-token-file they are beside /v1, too, for who bears the token, which /ui asks for.\n"
    "Port 0 takes any free one, and the line \"ready http=... grpc=...\" on stderr says which.\n"
    "\n"
    "Example:\n"
    "  ember-router --listen=127.0.0.1:8080 \\\n"
    "    --replica=r1,http=127.0.0.1:8101,grpc=127.0.0.1:8201 \\\n"
    "    --replica=r2,http=127.0.0.1:8102,grpc=127.0.0.1:8202\n"
    "  curl -i http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\\n"
    "    -d '{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'\n"
    "\n"
    "SIGTERM stops it: for --drain-delay-ms /health says 503 while all else goes on, so that\n"
    "balancers turn away; then nobody is let in, and requests in flight are finished within\n"
    "--grace-ms. SIGINT, or a second SIGTERM, ends the delay.\n"
    "SIGUSR1 opens the access log anew, after its file was renamed. SIGHUP does, too, and reads\n"
    "--tls-cert, --tls-key and --tls-client-ca again, for new connections; faulty ones change\n"
    "nothing.\n"
    "Exit codes: 0 stopped, 1 could not start, 2 wrong command line.";

// The flags as text and numbers; Config is what they mean.
struct Flags {
  std::string listen = "127.0.0.1:8080";
  std::string grpc = "127.0.0.1:8081";
  std::vector<std::string> policies;
  bool allow_policy_override = true;
  std::string log_level = "info";
  FleetFlags fleet;
  int max_retries = 2;
  size_t max_in_flight = 4096;
  HttpFlags http;
  size_t index_mib = 64;
  int connect_timeout_ms = 2000;
  int first_byte_timeout_ms = 600000;
  int idle_timeout_ms = 600000;
  TokenizeFlags tokenize;
  int drain_delay_ms = 5000;
  int grace_ms = 10000;
  bool server_timing = false;
  std::vector<std::string> stores;
  std::string access_log;
  std::string otlp_endpoint;
  double otlp_sample = 1;
};

void Declare(CLI::App& app, Flags& f) {
  const auto option = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->capture_default_str();
  };
  option("--listen", f.listen, "HTTP address");
  option("--grpc", f.grpc,
         "gRPC address for status and health, on a trusted network (it asks nobody who they are); "
         "\"off\": none");
  f.fleet.Declare(app);
  f.tokenize.Declare(app);
  app.add_option(
      "--store", f.stores,
      "HOST:PORT of a store node's gRPC door, whose feed says what is stored; repeat for "
      "each. None: what replicas reported is presumed to be stored");
  app.add_option(
      "--policy", f.policies,
      "NAME: policy of requests that name none [cache_aware]; MODEL=NAME: of one model's and of "
      "its adapters'; repeatable");
  option("--allow-policy-override", f.allow_policy_override,
         "requests may name their policy, or their replica (x-ember-pin); else such a request gets "
         "400");
  option("--max-retries", f.max_retries, "other replicas tried before the first byte of a reply")
      ->check(CLI::Range(0, 16));
  option("--max-in-flight", f.max_in_flight, "requests under way; more get 429")
      ->check(CLI::Range(size_t{1}, size_t{1} << 20));
  f.http.Declare(app);
  option("--index-mib", f.index_mib,
         "memory of the prefix index, which is about 48 B for each block that it knows")
      ->check(CLI::Range(size_t{1}, size_t{1} << 18));
  const auto milliseconds_option = [&](const char* name, int& value, const char* help) {
    option(name, value, help)->check(CLI::Range(1, 86'400'000));
  };
  milliseconds_option("--connect-timeout-ms", f.connect_timeout_ms, "to connect to a replica");
  milliseconds_option("--first-byte-timeout-ms", f.first_byte_timeout_ms,
                      "from a request's end to its reply's head; then 504");
  milliseconds_option("--idle-timeout-ms", f.idle_timeout_ms, "between two pieces of a reply");
  option("--drain-delay-ms", f.drain_delay_ms,
         "from SIGTERM to the listener's end: /health says 503, and who still comes is served")
      ->check(CLI::Range(0, 86'400'000));
  milliseconds_option("--grace-ms", f.grace_ms,
                      "after that, for requests in flight; then they are told 503, or cut");
  app.add_flag("--server-timing", f.server_timing,
               "replies say in a Server-Timing header where the time to the first byte went");
  app.add_option("--access-log", f.access_log,
                 "file for one JSON line a request, or - for stdout; SIGUSR1 opens it anew");
  app.add_option("--otlp-endpoint", f.otlp_endpoint,
                 "collector of spans, http://HOST:4318/v1/traces");
  option("--otlp-sample", f.otlp_sample, "share of the traces that begin here to send there")
      ->check(CLI::Range(0.0, 1.0));
  option("--log-level", f.log_level, "trace, debug, info, warn, error or off")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}));
}

Status ReadPolicies(const std::vector<std::string>& texts, RouterOptions* out) {
  out->default_policy = FindPolicy("cache_aware");
  for (const std::string& text : texts) {
    // A model's name may hold anything, a policy's no "=".
    const size_t equals = text.rfind('=');
    if (equals == 0) return InvalidError("--policy: no model before \"=\" in \"" + text + "\"");
    const std::string name = equals == text.npos ? text : text.substr(equals + 1);
    const Policy* policy = FindPolicy(name);
    if (policy == nullptr) {
      return InvalidError("--policy: unknown policy \"" + name + "\"; known: " + PolicyNames());
    }
    if (equals == text.npos) {
      out->default_policy = policy;
    } else {
      out->model_policies[text.substr(0, equals)] = policy;
    }
  }
  return OkStatus();
}

Result<Config> Interpret(const Flags& f) {
  Config out;
  Result<http::Origin> listen = ListenAddress("--listen", f.listen);
  if (!listen.ok()) return listen.status();
  if (f.grpc != "off") {
    Result<http::Origin> grpc = ListenAddress("--grpc", f.grpc);
    if (!grpc.ok()) return grpc.status();
    out.grpc = *std::move(grpc);
  }
  ServiceOptions& s = out.service;
  s.server.host = listen->host;
  s.server.port = listen->port;
  EMBER_RETURN_IF_ERROR(f.fleet.Interpret(&s));
  for (const std::string& text : f.stores) {
    Result<http::Origin> store = http::Origin::Parse(text);
    if (!store.ok()) return store.status().WithContext("--store");
    s.stores.push_back(store->ToString());
  }
  EMBER_RETURN_IF_ERROR(ReadPolicies(f.policies, &s.router));
  s.router.allow_policy_override = f.allow_policy_override;
  EMBER_RETURN_IF_ERROR(f.http.Interpret(&s));
  s.router.max_retries = f.max_retries;
  s.max_in_flight = f.max_in_flight;
  s.index_bytes = f.index_mib << 20;
  s.forwarder.connect_timeout = milliseconds(f.connect_timeout_ms);
  s.forwarder.first_byte_timeout = milliseconds(f.first_byte_timeout_ms);
  s.forwarder.idle_timeout = milliseconds(f.idle_timeout_ms);
  EMBER_RETURN_IF_ERROR(f.tokenize.Interpret(&s));
  s.forwarder.server_timing = f.server_timing;
  s.telemetry.access_log = f.access_log;
  if (!f.otlp_endpoint.empty()) {
    Result<OtlpOptions> otlp = OtlpOptions::Parse(f.otlp_endpoint);
    if (!otlp.ok()) return otlp.status().WithContext("--otlp-endpoint");
    if (std::isnan(f.otlp_sample)) return InvalidError("--otlp-sample: from 0 to 1");
    otlp->sample = f.otlp_sample;
    s.telemetry.otlp = *std::move(otlp);
  }
  out.drain_delay = milliseconds(f.drain_delay_ms);
  out.grace = milliseconds(f.grace_ms);
  out.log_level = f.log_level;
  return out;
}

}  // namespace

Result<std::optional<Config>> Config::FromCommandLine(int argc, const char* const* argv) {
  Flags flags;
  CLI::App app(kAbout, "ember-router");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("ember-router ") + EMBER_VERSION);
  Declare(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    app.exit(e);
    return std::optional<Config>();
  } catch (const CLI::ParseError& e) {
    return InvalidError(e.what());
  }
  Result<Config> config = Interpret(flags);
  if (!config.ok()) return config.status();
  return std::optional<Config>(*std::move(config));
}

}  // namespace ember::router
