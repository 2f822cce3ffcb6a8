#include "router/front/health_prober.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "router/fleet/join_watch.h"

namespace ember::router {

namespace asio = boost::asio;

namespace {

constexpr Duration kDelayInDoubt = milliseconds(250);

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
  auto watch = std::make_shared<Watch>();
  watches_[&endpoint] = watch;
  loop_.Spawn(Probe(replicas_.at(endpoint.members.front()).endpoint, std::move(watch)));
}

void HealthProber::OnRemoved(const Endpoint& endpoint) {
  const auto watch = watches_.find(&endpoint);
  watch->second->stop.Cancel();
  watch->second->wake->Cancel();
  watches_.erase(watch);
}

void HealthProber::OnDoubted(const Endpoint& endpoint) {
  const auto watch = watches_.find(&endpoint);
  if (watch == watches_.end()) return;
  std::exchange(watch->second->wake, std::make_shared<http::Cancellation>())->Cancel();
}

asio::awaitable<void> HealthProber::Probe(std::shared_ptr<Endpoint> endpoint,
                                          std::shared_ptr<Watch> watch) {
  JoinWatch joining(SteadyClock().Now());
  for (;;) {
    const auto wake = watch->wake;  // what is asked already may be answered as it was before
    const Status status = co_await Ask(*endpoint, watch->stop);
    if (watch->stop.cancelled()) co_return;
    // Without a descriptor of our own nothing is learned of the replica.
    if (status.code() != StatusCode::kBusy) {
      const TimePoint now = SteadyClock().Now();
      replicas_.ApplyProbe(*endpoint, status, now);
      if (const auto news = joining.Due(endpoint->health, now)) {
        spdlog::warn("replica {} {}", endpoint->config.id, *news);
      }
    }
    Duration delay = endpoint->health.probe_delay();
    if (SteadyClock().Now() < endpoint->doubted_until) delay = std::min(delay, kDelayInDoubt);
    (void)co_await http::SleepFor(delay, wake.get());
    if (watch->stop.cancelled()) co_return;
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
