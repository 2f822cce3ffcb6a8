#include "router/front/health_prober.h"

#include <utility>

namespace ember::router {

namespace asio = boost::asio;

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
  for (;;) {
    const Status status = co_await Ask(*endpoint, *stop);
    if (stop->cancelled()) co_return;
    // Without a descriptor of our own nothing is learned of the replica.
    if (status.code() != StatusCode::kBusy) {
      replicas_.ApplyProbe(*endpoint, status, SteadyClock().Now());
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
  if (!reply.ok()) co_return reply.status();
  if (reply->status != 200) {
    co_return UnavailableError(options_.path + " said " + std::to_string(reply->status));
  }
  co_return OkStatus();
}

}  // namespace ember::router
