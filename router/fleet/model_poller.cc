#include "router/fleet/model_poller.h"

#include <algorithm>
#include <utility>

#include "router/fleet/engine_models.h"

namespace ember::router {
namespace {

namespace asio = boost::asio;

constexpr size_t kMaxListBytes = 4u << 20;
constexpr Duration kListTimeout = seconds(2);
// Questions in vain until one that has never answered is taken to serve any model.
constexpr int kFirstTries = 5;
// A path that an engine does not have is 404 as well, however often it is asked.
constexpr Duration kDoubtPause = seconds(1);

}  // namespace

void ModelPoller::OnAdded(const Endpoint& endpoint) {
  auto watch = std::make_shared<Watch>();
  watches_[&endpoint] = watch;
  const auto shared = replicas_.at(endpoint.members.front()).endpoint;
  replicas_.AwaitModels(*shared);
  loop_.Spawn(Poll(shared, std::move(watch)));
}

void ModelPoller::OnStateChanged(const Endpoint& endpoint) {
  const auto watch = watches_.find(&endpoint);
  if (watch == watches_.end() || !endpoint.usable()) return;
  watch->second->due = true;
  std::exchange(watch->second->wake, std::make_shared<http::Cancellation>())->Cancel();
}

void ModelPoller::OnModelsDoubted(const Endpoint& endpoint) {
  const auto watch = watches_.find(&endpoint);
  if (watch == watches_.end()) return;
  if (SteadyClock().Now() - watch->second->asked >= kDoubtPause) OnStateChanged(endpoint);
}

void ModelPoller::OnRemoved(const Endpoint& endpoint) {
  const auto watch = watches_.find(&endpoint);
  if (watch == watches_.end()) return;
  watch->second->stop.Cancel();
  watch->second->wake->Cancel();
  watches_.erase(watch);
}

asio::awaitable<void> ModelPoller::Poll(std::shared_ptr<Endpoint> endpoint,
                                        std::shared_ptr<Watch> watch) {
  int failed = 0;  // questions in a row
  while (!watch->stop.cancelled()) {
    while (endpoint->health.usable() && std::exchange(watch->due, false)) {
      watch->asked = SteadyClock().Now();
      Result<std::optional<ModelList>> list = co_await Ask(*endpoint, watch->stop);
      if (watch->stop.cancelled()) co_return;
      failed = list.ok() ? 0 : failed + 1;
      if (list.ok() || failed >= kFirstTries) replicas_.ApplyModels(*endpoint, std::move(list));
    }
    const auto wake = watch->wake;
    const Duration pause =
        failed > 0 ? std::min(interval_, endpoint->health.probe_delay()) : interval_;
    const Status slept = co_await http::SleepFor(pause, wake.get());
    if (slept.ok()) watch->due = true;
  }
}

asio::awaitable<Result<std::optional<ModelList>>> ModelPoller::Ask(const Endpoint& endpoint,
                                                                   http::Cancellation& stop) {
  http::ExchangeOptions options;
  options.connect_timeout = kListTimeout;
  options.deadline = kListTimeout;
  options.aside = true;
  options.cancellation = &stop;
  http::UpstreamRequest request{
      .method = "GET", .target = "/v1/models", .headers = {}, .host = endpoint.config.host};
  if (!endpoint.config.key.empty()) {
    request.headers.Add("Authorization", "Bearer " + endpoint.config.key);
  }
  const auto reply =
      co_await pool_.Call(endpoint.config.http, std::move(request), options, kMaxListBytes);
  if (!reply.ok()) co_return reply.status();
  if (reply->status >= 500 || reply->status == 429 || reply->status == 408) {
    co_return UnavailableError("/v1/models failed");
  }
  co_return reply->status == 200 ? ReadEngineModels(reply->body) : std::nullopt;
}

}  // namespace ember::router
