#include "router/admission/admission.h"

#include <algorithm>
#include <boost/asio/post.hpp>

#include "client/http/await.h"

namespace ember::router {
namespace {

namespace asio = boost::asio;

// What a prompt costs grows with its length; short ones differ by little.
constexpr size_t kBytesPerCost = 4096;

TimePoint Now() { return std::chrono::steady_clock::now(); }

}  // namespace

Admission::Admission(asio::any_io_executor executor, AdmissionOptions options,
                     MetricsRegistry& metrics)
    : executor_(std::move(executor)),
      options_(options),
      waiting_(metrics.AddGauge("ember_router_waiting", "Requests that wait for a replica's room")),
      full_(metrics.AddCounter("ember_router_queue_refused_total",
                               "Requests that found no room and did not get any",
                               {{"reason", "full"}})),
      late_(metrics.AddCounter("ember_router_queue_refused_total",
                               "Requests that found no room and did not get any",
                               {{"reason", "deadline"}})),
      waited_(metrics.AddHistogram("ember_router_queue_seconds",
                                   "Wait for a replica's room, of those that had to")) {}

bool Admission::idle(const Places& places) const {
  return std::none_of(crowds_.begin(), crowds_.end(),
                      [&](const auto& crowd) { return (crowd.first & places).any(); });
}

asio::awaitable<Status> Admission::Wait(AdmissionRequest request, http::Cancellation& gone) {
  if (gone.cancelled()) co_return CancelledError("the client left");
  // A share's requests for other places take turns of their own, or they would hold these back.
  const std::string places = "\n" + std::to_string(std::hash<Places>()(request.places));
  const FairQueue::Whose turn{request.whose.share + places, request.whose.tenant};
  const auto crowd = crowds_.find(request.places);
  if ((crowd == crowds_.end() ? 0 : crowd->second) >= options_.max_waiting) {
    if (!PushOutFor(turn, places)) co_return Full();
  }
  const TimePoint since = Now();
  asio::steady_timer timer(executor_, since + options_.max_wait);
  Outcome outcome = Outcome::kWaiting;
  if (queue_.size() == 0) drained_.OnFirstWaiter(since);
  ++crowds_[request.places];
  const FairQueue::Ticket ticket = queue_.Push(
      turn,
      static_cast<uint32_t>(std::min<size_t>(request.bytes / kBytesPerCost, FairQueue::kMaxCost)) +
          1);
  waiters_.emplace(ticket, Waiter{&request, &timer, &outcome});
  waiting_.Set(static_cast<double>(queue_.size()));
  const auto registration = gone.OnCancel([&] {
    if (outcome != Outcome::kWaiting) return;
    outcome = Outcome::kGone;
    timer.cancel();
  });
  SchedulePump();
  co_await timer.async_wait(http::kAwait);
  if (outcome != Outcome::kGo) queue_.Remove(ticket);
  waiters_.erase(ticket);
  if (const auto left = crowds_.find(request.places); --left->second == 0) crowds_.erase(left);
  waiting_.Set(static_cast<double>(queue_.size()));
  waited_.Observe(ToMilliseconds(Now() - since) / 1000);
  if (outcome == Outcome::kGo) {
    granted_ = false;
    SchedulePump();  // runs when the caller suspends again, its room taken
    co_return OkStatus();
  }
  if (outcome == Outcome::kGone) co_return CancelledError("the client left");
  if (outcome == Outcome::kPushedOut) co_return Full();
  late_.Add();
  co_return DeadlineError("every replica stayed full for too long");
}

bool Admission::PushOutFor(const FairQueue::Whose& turn, const std::string& places) {
  const auto out =
      queue_.PushOutFor(turn, [&](const std::string& other) { return other.ends_with(places); });
  if (!out) return false;
  const Waiter& waiter = waiters_.at(*out);
  *waiter.outcome = Outcome::kPushedOut;
  waiter.timer->cancel();
  return true;
}

Status Admission::Full() {
  full_.Add();
  return BusyError("every replica is full, and so is the queue");
}

void Admission::OnRoom() {
  if (queue_.size() > 0) SchedulePump();
}

void Admission::SchedulePump() {
  if (std::exchange(pumping_, true)) return;
  asio::post(executor_, [this] {
    pumping_ = false;
    Pump();
  });
}

void Admission::Pump() {
  if (granted_) return;
  const auto next =
      queue_.Pop([&](FairQueue::Ticket ticket) { return waiters_.at(ticket).request->may_go(); });
  if (!next) return;
  granted_ = true;
  const Waiter& waiter = waiters_.at(*next);
  *waiter.outcome = Outcome::kGo;
  waiter.timer->cancel();
}

int Admission::RetryAfterSeconds() const {
  return queue_.size() == 0 ? 1 : drained_.SecondsFor(queue_.size() + 1, Now());
}

}  // namespace ember::router
