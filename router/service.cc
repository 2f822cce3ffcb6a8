#include "router/service.h"

#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <future>
#include <utility>

namespace ember::router {
namespace {

namespace asio = boost::asio;

constexpr Duration kStatusTimeout = seconds(5);

TimePoint Now() { return std::chrono::steady_clock::now(); }

}  // namespace

Service::Service(ServiceOptions options, AgentClient& agents)
    : options_(std::move(options)),
      started_(Now()),
      loop_(1),
      pool_(loop_,
            [this] {
              http::UpstreamPoolOptions upstream = options_.upstream;
              upstream.metrics = &registry_;
              return upstream;
            }()),
      replicas_(options_.health),
      membership_(replicas_),
      index_({.max_bytes = options_.index_bytes,
              .seed = random_.Next(),
              .presume_stored = options_.stores.empty()}),
      events_(loop_, index_, random_, registry_, replicas_),
      matcher_(replicas_, index_, random_, &events_.feed()),
      store_feed_(index_, options_.stores),
      metrics_(registry_),
      tokenizer_(replicas_, agents, pool_, registry_, options_.tokenizer),
      parity_(loop_, pool_, replicas_, tokenizer_.local(), registry_, options_.parity),
      forwarder_(pool_, replicas_, metrics_, options_.forwarder),
      admission_(loop_.executor(), options_.admission, registry_),
      explain_(options_.explained_requests),
      telemetry_(metrics_, explain_, random_),
      feed_(replicas_, index_, matcher_, tokenizer_, metrics_),
      prefetches_(loop_.executor(), agents, registry_),
      verifier_(loop_.executor(), agents, replicas_, matcher_, registry_),
      router_({.replicas = &replicas_,
               .index = &index_,
               .matcher = &matcher_,
               .tokenizer = &tokenizer_,
               .forwarder = &forwarder_,
               .telemetry = &telemetry_,
               .metrics = &metrics_,
               .admission = &admission_,
               .prefetches = &prefetches_,
               .verifier = &verifier_,
               .random = &random_},
              options_.router),
      admin_(membership_, replicas_, options_.admin.token),
      door_([this](http::Request& request,
                   http::ResponseWriter& writer) { return router_.Handle(request, writer); },
            [this] { return admission_.RetryAfterSeconds(); }, replicas_,
            {.status = [this] { return Report(); },
             .explain_request = [this](http::Request& request) { return router_.Explain(request); },
             .check_token =
                 [this](const http::Request& request) { return admin_.CheckToken(request); },
             .explain = &explain_,
             .telemetry = &telemetry_,
             .registry = &registry_},
            telemetry_, metrics_, options_.max_in_flight, ServedPaths(options_.allowed_paths),
            Cors(options_.cors_origins), options_.admin.on_door ? &admin_ : nullptr,
            {.explain = options_.admin.explain_on_door,
             .live = options_.admin.live_on_door,
             .token = !options_.admin.token.empty(),
             .elsewhere = options_.admin.listen.has_value()}),
      prober_(loop_, pool_, replicas_,
              {.path = options_.health_path, .timeout = options_.health.probe_timeout}),
      poller_(loop_, pool_, replicas_, options_.load_interval),
      model_poller_(loop_, pool_, replicas_, options_.models_interval) {
  replicas_.SetOnRoom([this] { admission_.OnRoom(); });
  replicas_.AddListener(&feed_);
  replicas_.AddListener(&events_);
  replicas_.AddListener(&router_);
  replicas_.AddListener(&prober_);
  replicas_.AddListener(&parity_);
  replicas_.AddListener(&poller_);
  if (options_.models_interval > Duration::zero()) replicas_.AddListener(&model_poller_);
  options_.server.metrics = &registry_;
  options_.server.metrics_prefix = "ember_router_http";
}

Status Service::Start() {
  EMBER_RETURN_IF_ERROR(tokenizer_.Load());
  EMBER_RETURN_IF_ERROR(telemetry_.Open(options_.telemetry, loop_, pool_));
  if (options_.tls_files) EMBER_RETURN_IF_ERROR(ReadTls(&options_.server.tls));
  auto server = http::HttpServer::Listen(
      loop_, options_.server,
      [this](http::Request& request, http::ResponseWriter& writer) {
        return door_.Answer(request, writer);
      },
      [this](http::Request& request, http::ResponseWriter& writer, http::OpenAiError error,
             http::Headers extra) {
        return door_.AnswerRefused(request, writer, std::move(error), std::move(extra));
      });
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  if (options_.admin.listen) EMBER_RETURN_IF_ERROR(ListenForAdmin());
  following_ = true;
  return OnLoop([this] { return StartFleet(); });
}

Status Service::ReadTls(std::shared_ptr<http::TlsContext>* out) {
  auto tls = http::TlsContext::ForServer(*options_.tls_files);
  metrics_.reload_failed.Set(tls.ok() ? 0 : 1);
  if (!tls.ok()) return tls.status();
  *out = *std::move(tls);
  metrics_.certificate_expiry.Set(static_cast<double>((*out)->ExpiresAt()));
  const std::string doubt = (*out)->DoubtAt(std::time(nullptr));
  if (!doubt.empty()) {
    spdlog::warn("tls: certificate {} {}", options_.tls_files->certificate, doubt);
  }
  return OkStatus();
}

void Service::Reload() {
  ReopenLog();
  if (!options_.tls_files || server_ == nullptr) return;
  std::shared_ptr<http::TlsContext> tls;
  if (const Status read = ReadTls(&tls); !read.ok()) {
    return spdlog::error("tls: {}; the old certificate stays", read.ToString());
  }
  if (admin_server_ != nullptr) admin_server_->SetTls(tls);
  server_->SetTls(std::move(tls));
  spdlog::info("tls: new connections get {} as it is now", options_.tls_files->certificate);
}

Status Service::ListenForAdmin() {
  http::HttpServerOptions options;
  options.host = options_.admin.listen->host;
  options.port = options_.admin.listen->port;
  options.max_body_bytes = 1u << 20;
  options.max_connections = 64;
  options.tls = options_.server.tls;
  auto server = http::HttpServer::Listen(
      loop_, options,
      [this](http::Request& request, http::ResponseWriter& writer) -> asio::awaitable<void> {
        if (AdminApi::Knows(request.path)) return admin_.Answer(request, writer);
        return door_.AnswerPage(request, writer);
      });
  if (!server.ok()) return server.status().WithContext("--admin");
  admin_server_ = *std::move(server);
  return OkStatus();
}

Status Service::StartFleet() {
  EMBER_RETURN_IF_ERROR(membership_.Replace(kFlagSource, options_.replicas));
  if (options_.replicas.empty() && options_.fleet_file.empty() && options_.fleet_dns.empty() &&
      !options_.admin.on_door && !options_.admin.listen) {
    spdlog::warn(
        "no replica, and none can come: name them with --replica, --fleet-file, --fleet-dns or "
        "--admin");
  }
  if (!options_.fleet_file.empty()) {
    fleet_file_ =
        std::make_unique<FleetFile>(options_.fleet_file, options_.fleet_file_interval, membership_);
    if (Status read = fleet_file_->Load(); !read.ok()) return read.WithContext("--fleet-file");
    fleet_file_->Follow(loop_);
  }
  for (const FleetDnsConfig& name : options_.fleet_dns) {
    fleet_dns_.push_back(std::make_unique<FleetDns>(name, membership_, FleetDns::BySystem(loop_)));
    fleet_dns_.back()->Follow(loop_);
  }
  return OkStatus();
}

Status Service::OnLoop(std::function<Status()> work) {
  const auto promise = std::make_shared<std::promise<Status>>();
  std::future<Status> result = promise->get_future();
  asio::post(loop_.executor(), [promise, work = std::move(work)] { promise->set_value(work()); });
  if (result.wait_for(kStatusTimeout) != std::future_status::ready) {
    return UnavailableError("the router's loop does not answer");
  }
  return result.get();
}

void Service::AnnounceDrain() {
  if (server_ == nullptr) return;
  server_->WindDown();
  const Status told = OnLoop([this] {
    door_.SetStopping();
    return OkStatus();
  });
  if (!told.ok()) spdlog::warn("stopping: {}", told.ToString());
}

void Service::Drain(Duration grace) {
  if (following_) AnnounceDrain();
  if (admin_server_ != nullptr) admin_server_->Stop(Duration::zero());
  const bool was_following = std::exchange(following_, false);
  if (was_following) {
    // From here on the fleet stays as it is.
    const Status stopped = OnLoop([this] {
      if (fleet_file_ != nullptr) fleet_file_->Stop();
      for (const auto& dns : fleet_dns_) dns->Stop();
      return OkStatus();
    });
    if (!stopped.ok()) spdlog::warn("fleet: {}", stopped.ToString());
  }
  const size_t cut = server_ == nullptr ? 0 : server_->Stop(grace);
  if (cut > 0) spdlog::warn("stopping: the grace is over; requests cut: {}", cut);
  if (!was_following) return;
  // Probes and requests that were cancelled just now still change replicas.
  const Status dropped = OnLoop([this] {
    replicas_.DropListeners();
    return OkStatus();
  });
  if (!dropped.ok()) spdlog::warn("fleet: {}", dropped.ToString());
}

void Service::Stop(Duration grace) {
  Drain(grace);
  events_.Close();
  telemetry_.Close();
  loop_.Stop();
}

StatusReport Service::Report() const {
  StatusReport report = StatusReport::Of(replicas_, index_);
  report.stopping = door_.stopping();
  report.default_policy = options_.router.default_policy->name();
  report.waiting = admission_.waiting();
  report.fleet_sources = membership_.SourcesInTrouble();
  report.stores = store_feed_.Report();
  report.tokenizer = tokenizer_.Report();
  for (ReplicaReport& r : report.replicas) r.events = events_.feed().StateOf(r.holder);
  report.uptime_seconds = ToMilliseconds(Now() - started_) / 1000;
  return report;
}

Result<StatusReport> Service::GetStatus() {
  const auto report = std::make_shared<StatusReport>();
  EMBER_RETURN_IF_ERROR(OnLoop([this, report] {
    *report = Report();
    return OkStatus();
  }));
  return std::move(*report);
}

}  // namespace ember::router
