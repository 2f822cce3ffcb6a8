// A replica whose requests end when the test says so.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "tests/unit/router/router_fixture.h"

namespace ember::router {

// A replica that keeps what it was sent until it is told to answer so many.
class SlowReplica {
 public:
  void Answer(int n) {
    std::lock_guard lock(mutex_);
    may_answer_ += n;
    changed_.notify_all();
  }
  int most_at_once() const { return most_.load(); }
  // X-Name fields in the order in which requests came.
  std::vector<std::string> Order() {
    std::lock_guard lock(mutex_);
    return order_;
  }

 private:
  void Serve(http::TestSocket& peer, const http::WireMessage& request) {
    std::unique_lock lock(mutex_);
    order_.push_back(request.Field("X-Name"));
    most_ = std::max(most_.load(), ++now_);
    changed_.wait(lock, [&] { return may_answer_ > 0; });
    --may_answer_;
    --now_;
    lock.unlock();
    peer.Send(JsonReply(200, "{}"));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int may_answer_ = 0, now_ = 0;
  std::atomic<int> most_{0};
  std::vector<std::string> order_;

 public:
  FakeReplica replica{[this](http::TestSocket& p, const http::WireMessage& r) { Serve(p, r); }};
};

// Of a metric without labels; -1: there is none.
inline double MetricOf(const RouterFixture& router, const std::string& name) {
  const std::string page = router.Page("/metrics");
  const size_t at = page.find("\n" + name + " ");
  return at == page.npos ? -1 : std::stod(page.substr(at + name.size() + 2));
}

}  // namespace ember::router
