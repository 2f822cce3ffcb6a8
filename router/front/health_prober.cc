#include "router/front/health_prober.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "router/fleet/join_watch.h"

namespace ember::router {

namespace asio = boost::asio;

namespace {

// It took the connection and has never answered: as most servers of TLS do that are asked in plain
// text.
bool WantsTls(const Endpoint& endpoint, const Status& why) {
  return endpoint.health.state() == Health::State::kJoining && !endpoint.config.http.https &&
         why.code() == StatusCode::kUnavailable && !why.message().starts_with("connect to ");
}

const char* HintFor(int status) {
  if (status == 401 || status == 403) return "; does it want a key (key=)?";
  return status == 404 ? "; see --health-path" : "";
}

}  // namespace

void HealthProber::OnAdded(const Endpoint& endpoint) {
  auto stop = std::make_shared<http::Cancellation>();
  probes_[&endpoint] = stop;
  loop_.Spawn(Probe(replicas_.at(endpoint.members.front()).endpoint, std::move(stop)));
}

void HealthProber::OnRemoved(const Endpoint& endpoint) {
  const auto probe = probes_.find(&endpoint);
  probe->second->Cancel();
  probes_.erase(probe);
}

asio::awaitable<void> HealthProber::Probe(std::shared_ptr<Endpoint> endpoint, Stop stop) {
  JoinWatch joining(SteadyClock().Now());
  for (;;) {
    const Status status = co_await Ask(*endpoint, *stop);
    if (stop->cancelled()) co_return;
    // Without a descriptor of our own nothing is learned of the replica.
    if (status.code() != StatusCode::kBusy) {
      const TimePoint now = SteadyClock().Now();
      replicas_.ApplyProbe(*endpoint, status, now);
      if (const auto news = joining.Due(endpoint->health, now)) {
        spdlog::warn("replica {} {}", endpoint->config.id, *news);
      }
    }
    if (!(co_await http::SleepFor(endpoint->health.probe_delay(), stop.get())).ok()) co_return;
  }
}

asio::awaitable<Status> HealthProber::Ask(const Endpoint& endpoint, http::Cancellation& stop) {
  http::ExchangeOptions options;
  options.connect_timeout = options_.timeout;
  options.deadline = options_.timeout;
  options.aside = true;  // a replica that hangs holds all its connections
  options.cancellation = &stop;
  http::UpstreamRequest request{
      .method = "GET", .target = options_.path, .headers = {}, .host = endpoint.config.host};
  if (!endpoint.config.key.empty()) {
    request.headers.Add("Authorization", "Bearer " + endpoint.config.key);
  }
  const auto reply = co_await pool_.Call(endpoint.config.http, std::move(request), options);
  if (!reply.ok()) {
    co_return WantsTls(endpoint, reply.status())
        ? UnavailableError(std::string(reply.status().message()) + "; is it https?")
        : reply.status();
  }
  if (reply->status / 100 != 2) {
    co_return UnavailableError(options_.path + " said " + std::to_string(reply->status) +
                               HintFor(reply->status));
  }
  co_return OkStatus();
}

}  // namespace ember::router
