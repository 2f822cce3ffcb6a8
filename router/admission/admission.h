// Admission: where requests wait when every replica that could take them is full. Bounded in number
// and in time, fair between tenants (FairQueue), also about who is refused; who is refused is told
// when to come again, by how fast the queue drains.
//
// Concurrency: the router's loop thread. Must outlive the coroutines that wait.
#pragma once

#include <bitset>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <unordered_map>

#include "client/http/cancellation.h"
#include "proto/base/metrics.h"
#include "proto/base/time.h"
#include "router/admission/drain_rate.h"
#include "router/admission/fair_queue.h"

namespace ember::router {

struct AdmissionOptions {
  size_t max_waiting = 1024;  // for the same places
  Duration max_wait = seconds(30);
};

// Where a request may go, by numbers of the caller's. Who may go to the same ones waits with them;
// who may go elsewhere does not.
inline constexpr size_t kMaxPlaces = 512;
using Places = std::bitset<kMaxPlaces>;

// What a request brings to the queue.
struct AdmissionRequest {
  FairQueue::Whose whose;        // turn it takes
  size_t bytes = 0;              // of its body; what its turn costs
  Places places{};               // some of which may have room
  std::function<bool()> may_go;  // there is room for it now, or none will come
};

class Admission {
 public:
  Admission(boost::asio::any_io_executor executor, AdmissionOptions options,
            MetricsRegistry& metrics);

  size_t waiting() const { return queue_.size(); }
  // Nobody waits at all, or for any of these places: who finds room there may take it.
  bool idle() const { return crowds_.empty(); }
  bool idle(const Places& places) const;
  // Waits for its turn and for room. OK: take the room before suspending again. kBusy: as many wait
  // for the same places as may, or another tenant's took its place because its own had most.
  // kDeadline: not within max_wait. kCancelled: `gone` fired.
  boost::asio::awaitable<Status> Wait(AdmissionRequest request, http::Cancellation& gone);
  // Room may have come up, or be lost: a request ended, a replica came back or went.
  void OnRoom();
  // A request that found room is over.
  void OnServed() { drained_.OnEnd(std::chrono::steady_clock::now()); }
  // For a Retry-After: when as much will have been served as waits now, by what was served lately.
  int RetryAfterSeconds() const;

 private:
  enum class Outcome : uint8_t { kWaiting, kGo, kGone, kPushedOut };
  struct Waiter {
    const AdmissionRequest* request;
    boost::asio::steady_timer* timer;
    Outcome* outcome;
  };
  // Makes room in the full queue for one of `turn`; false: nobody has more there.
  bool PushOutFor(const FairQueue::Whose& turn, const std::string& places);
  Status Full();
  void SchedulePump();
  void Pump();

  const boost::asio::any_io_executor executor_;
  const AdmissionOptions options_;
  FairQueue queue_;
  std::unordered_map<Places, size_t> crowds_;  // how many wait for the same, or were told to go
  std::unordered_map<FairQueue::Ticket, Waiter> waiters_;
  DrainRate drained_;
  bool pumping_ = false;
  bool granted_ = false;  // somebody was told to go and has not gone yet
  Gauge& waiting_;
  Counter& full_;
  Counter& late_;
  Histogram& waited_;
};

}  // namespace ember::router
