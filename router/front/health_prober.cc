#include "router/front/health_prober.h"

#include <utility>

namespace ember::router {
namespace {

namespace asio = boost::asio;

constexpr Duration kProbeTimeout = seconds(2);

}  // namespace

HealthProber::HealthProber(http::HttpLoop& loop, http::UpstreamPool& pool, ReplicaSet& replicas,
                           OnChange on_change)
    : pool_(pool), replicas_(replicas), on_change_(std::move(on_change)) {
  for (ReplicaNumber n = 0; n < replicas_.size(); ++n) loop.Spawn(Probe(n));
}

asio::awaitable<void> HealthProber::Probe(ReplicaNumber replica) {
  ReplicaSet::Member& member = replicas_.at(replica);
  for (;;) {
    const bool before = member.view.healthy;
    member.health.OnProbe(co_await Ask(replica));
    replicas_.RefreshHealth(replica);
    if (member.view.healthy != before) on_change_(replica);
    if (!(co_await http::SleepFor(member.health.probe_delay(), nullptr)).ok()) co_return;
  }
}

asio::awaitable<Status> HealthProber::Ask(ReplicaNumber replica) {
  http::ExchangeOptions options;
  options.connect_timeout = kProbeTimeout;
  options.deadline = kProbeTimeout;
  const auto reply = co_await pool_.Call(replicas_.at(replica).config.http,
                                         {.method = "GET", .target = "/health"}, options);
  if (!reply.ok()) co_return reply.status();
  if (reply->status != 200) {
    co_return UnavailableError("/health said " + std::to_string(reply->status));
  }
  co_return OkStatus();
}

}  // namespace ember::router
