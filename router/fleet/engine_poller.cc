#include "router/fleet/engine_poller.h"

#include <utility>

namespace ember::router {
namespace {

namespace asio = boost::asio;

constexpr size_t kMaxMetricsBytes = 4u << 20;
constexpr Duration kMetricsTimeout = seconds(2);
// Reports older than so many intervals say nothing any more.
constexpr int kMissedPolls = 3;
// Until an engine is asked again that told nothing.
constexpr Duration kUnknownPause = seconds(30);

}  // namespace

void EnginePoller::OnAdded(const Endpoint& endpoint) {
  if (!endpoint.config.grpc.empty()) return;  // its agent reports
  auto stop = std::make_shared<http::Cancellation>();
  polls_[&endpoint] = stop;
  loop_.Spawn(Poll(replicas_.at(endpoint.members.front()).endpoint, std::move(stop)));
}

void EnginePoller::OnRemoved(const Endpoint& endpoint) {
  const auto poll = polls_.find(&endpoint);
  if (poll == polls_.end()) return;
  poll->second->Cancel();
  polls_.erase(poll);
}

asio::awaitable<void> EnginePoller::Poll(std::shared_ptr<Endpoint> endpoint, Stop stop) {
  int missed = 0;
  for (;;) {
    Duration pause = interval_;
    if (endpoint->health.usable()) {
      const Result<Reports> reports = co_await Ask(*endpoint, *stop);
      if (stop->cancelled()) co_return;
      if (reports.ok() && !reports->empty()) {
        missed = 0;
        Apply(*endpoint, *reports);
      } else {
        ++missed;
        if (missed >= kMissedPolls && reports.ok()) pause = kUnknownPause;
      }
    } else {
      missed = kMissedPolls;
    }
    if (missed == kMissedPolls) {
      for (const ReplicaNumber n : endpoint->members) replicas_.ForgetEngineLoad(n);
    }
    if (!(co_await http::SleepFor(pause, stop.get())).ok()) co_return;
  }
}

// An error: nothing came. Empty: what came says nothing of load, as of an engine that has none.
asio::awaitable<Result<EnginePoller::Reports>> EnginePoller::Ask(const Endpoint& endpoint,
                                                                 http::Cancellation& stop) {
  http::ExchangeOptions options;
  options.connect_timeout = kMetricsTimeout;
  options.deadline = kMetricsTimeout;
  options.aside = true;  // of a full replica more than of any other
  options.cancellation = &stop;
  http::UpstreamRequest request{
      .method = "GET", .target = "/metrics", .headers = {}, .host = endpoint.config.host};
  if (!endpoint.config.key.empty()) {
    request.headers.Add("Authorization", "Bearer " + endpoint.config.key);
  }
  const auto reply =
      co_await pool_.Call(endpoint.config.http, std::move(request), options, kMaxMetricsBytes);
  if (!reply.ok()) co_return reply.status();
  co_return reply->status == 200 ? ReadEngineMetrics(reply->body) : Reports();
}

void EnginePoller::Apply(const Endpoint& endpoint, const Reports& reports) {
  const TimePoint now = SteadyClock().Now();
  if (endpoint.config.ranks == 0) {
    return replicas_.ApplyEngineLoad(endpoint.members.front(), SumOf(reports), now);
  }
  for (const ReplicaNumber n : endpoint.members) {
    const auto report = reports.find(replicas_.at(n).rank);
    if (report != reports.end()) replicas_.ApplyEngineLoad(n, report->second, now);
  }
}

}  // namespace ember::router
