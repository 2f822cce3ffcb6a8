// Service: the router as one running thing: loop, door, replicas, index, probes. It knows nothing
// of gRPC: who asks agents for tokens comes in from outside, and their reports go to feed().
//
// Concurrency: Start, Stop and Status from the owner's thread, never from the loop's; everything
// else happens on the loop's one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/http/server.h"
#include "client/http/tls_context.h"
#include "router/events/event_follower.h"
#include "router/fleet/engine_poller.h"
#include "router/fleet/fleet_dns.h"
#include "router/fleet/fleet_file.h"
#include "router/fleet/model_poller.h"
#include "router/fleet_feed.h"
#include "router/front/admin_api.h"
#include "router/front/door.h"
#include "router/front/forwarder.h"
#include "router/front/health_prober.h"
#include "router/router.h"
#include "router/stores/store_feed.h"
#include "router/tokenize/parity_probe.h"
#include "router/tokenize/prompt_tokenizer.h"

namespace ember::router {

// Who may change the fleet over HTTP; by default nobody.
struct AdminOptions {
  bool on_door = false;                // beside /v1; only with a token
  std::optional<http::Origin> listen;  // on an address of its own
  std::string token;                   // empty: none is asked for
  bool explain_on_door = true;         // /admin/explain is beside /v1, too, with the token if any
  bool live_on_door = true;  // and so are /ui, /admin/status and /admin/live, for everybody; else
                             // for the token
};

struct ServiceOptions {
  http::HttpServerOptions server;
  std::optional<http::TlsServerFiles> tls_files;  // nothing: plain HTTP; server.tls is made of them
  http::UpstreamPoolOptions upstream;
  ForwarderOptions forwarder;
  PromptTokenizerOptions tokenizer;
  ParityProbeOptions parity;
  RouterOptions router;
  TelemetryOptions telemetry;
  size_t max_in_flight = 4096;
  std::vector<std::string> allowed_paths;  // see ServedPaths
  std::vector<std::string> cors_origins;   // see Cors
  size_t index_bytes = 64u << 20;
  size_t explained_requests = 512;
  HealthOptions health;
  std::string health_path = "/health";
  std::vector<ReplicaConfig> replicas;
  std::string fleet_file;  // empty: none
  Duration fleet_file_interval = milliseconds(500);
  std::vector<FleetDnsConfig> fleet_dns;
  AdminOptions admin;
  std::vector<std::string> stores;  // gRPC addresses of the store nodes whose feeds are followed
  AdmissionOptions admission;
  Duration load_interval = milliseconds(500);
  Duration models_interval = seconds(10);  // zero: replicas are not asked for their models
};

class Service {
 public:
  // `agents` is asked on the loop thread, and must outlive Drain.
  Service(ServiceOptions options, AgentClient& agents);
  ~Service() { Stop(Duration::zero()); }

  // Before Start. Told on the loop thread; must outlive Drain.
  void AddListener(ReplicaListener* listener) { replicas_.AddListener(listener); }
  // Listens, adds the replicas and begins to follow where more come from. Errors are those of
  // HttpServer::Listen, Membership::Replace and FleetFile::Load.
  Status Start();
  // The drain is near: /health and the status say so, replies end their connections, and all else
  // goes on, so that balancers send no more before they would be refused. Idempotent.
  void AnnounceDrain();
  // AnnounceDrain, then stops accepting and lets requests in flight finish for up to `grace`, then
  // cancels them. The loop goes on, but tells listeners nothing any more. Idempotent.
  void Drain(Duration grace);
  // Drain, and the loop ends. Idempotent.
  void Stop(Duration grace);

  // After the access log's file was renamed: opens it anew.
  void ReopenLog() { telemetry_.ReopenLog(); }
  // ReopenLog, and reads the listeners' certificate, key and client authorities again, for new
  // connections; when they are faulty the old ones stay. The log and a metric tell.
  void Reload();

  uint16_t port() const { return server_->port(); }
  // 0: the admin API has no address of its own.
  uint16_t admin_port() const { return admin_server_ == nullptr ? 0 : admin_server_->port(); }
  http::HttpLoop& loop() { return loop_; }
  // To be called on the loop thread.
  AgentListener& feed() { return feed_; }
  StoreListener& store_feed() { return store_feed_; }
  // kUnavailable when the loop has stopped or does not answer within seconds.
  Result<StatusReport> GetStatus();

 private:
  StatusReport Report() const;
  Status StartFleet();
  // Of files that may have changed since the command line was read.
  Status ReadTls(std::shared_ptr<http::TlsContext>* out);
  Status ListenForAdmin();
  // Runs on the loop and waits; kUnavailable when the loop does not answer.
  Status OnLoop(std::function<Status()> work);

  ServiceOptions options_;
  const TimePoint started_;
  BatchedRandom random_;
  MetricsRegistry registry_;
  http::HttpLoop loop_;
  http::UpstreamPool pool_;
  ReplicaSet replicas_;
  Membership membership_;
  std::unique_ptr<FleetFile> fleet_file_;
  std::vector<std::unique_ptr<FleetDns>> fleet_dns_;
  bool following_ = false;  // of the owner's thread
  PrefixIndex index_;
  EventFollower events_;
  PrefixMatcher matcher_;
  StoreFeed store_feed_;
  RouterMetrics metrics_;
  PromptTokenizer tokenizer_;
  ParityProbe parity_;
  Forwarder forwarder_;
  Admission admission_;
  ExplainLog explain_;
  Telemetry telemetry_;
  FleetFeed feed_;
  PrefetchSender prefetches_;
  PrefixVerifier verifier_;
  Router router_;
  AdminApi admin_;
  Door door_;
  HealthProber prober_;
  EnginePoller poller_;
  ModelPoller model_poller_;
  std::unique_ptr<http::HttpServer> server_, admin_server_;
};

}  // namespace ember::router
