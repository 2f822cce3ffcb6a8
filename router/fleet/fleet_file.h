// FleetFile: follows a file that names replicas. A change counts once the file has looked the same
// twice, so that one that is just being written is not taken for a small fleet; a rename over it
// works as well. A file that is wrong, or gone, changes nothing.
//
// Concurrency: the router's loop thread. Life: until Stop, or until the loop's threads have ended.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "client/http/loop.h"
#include "router/fleet/membership.h"

namespace ember::router {

class FleetFile {
 public:
  FleetFile(std::string path, Duration interval, Membership& membership)
      : path_(std::move(path)), interval_(interval), membership_(membership) {}

  // Reads it once. kInvalid, kUnavailable: it is wrong, or it or a key can't be read. One that is
  // not there yet, or can't be taken whole, is only a trouble.
  Status Load();
  // Looks at it from now on, each interval.
  void Follow(http::HttpLoop& loop);
  void Stop() { stop_->Cancel(); }

 private:
  using Look = std::tuple<uint64_t, uint64_t, int64_t, int64_t, int64_t>;
  std::optional<Look> LookAt() const;
  Status Apply();
  void NoteTrouble(const Status& what);
  using StopSign = std::shared_ptr<http::Cancellation>;
  boost::asio::awaitable<void> Run(StopSign stop);

  const std::string path_;
  const Duration interval_;
  Membership& membership_;
  std::optional<Look> seen_;     // at the last look
  std::optional<Look> applied_;  // what was read last, good or bad
  // Shared with the coroutine, which may be destroyed after this.
  const StopSign stop_ = std::make_shared<http::Cancellation>();
};

}  // namespace ember::router
