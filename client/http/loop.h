// HttpLoop: the threads and the Asio context on which servers, upstream connections and their
// coroutines run. A process has one.
//
// Concurrency: every method is safe from any thread. Code of one request runs on one strand.
// Life: servers are stopped, and pools destroyed, while the loop runs. Whatever coroutines use must
// outlive them: those still suspended at the end are destroyed with the loop.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "client/http/cancellation.h"
#include "proto/base/status.h"
#include "proto/base/time.h"

namespace ember::http {

class NameResolver;

class HttpLoop {
 public:
  // Starts `threads` threads (at least one).
  explicit HttpLoop(int threads = 1);
  ~HttpLoop();

  boost::asio::any_io_executor executor();
  // For work that is a unit of its own: no two coroutines of one strand run at the same time.
  boost::asio::any_io_executor NewStrand();
  // Whose answers end with the threads.
  NameResolver& names();
  // Runs `work` on a strand of its own. An exception that escapes it is logged.
  void Spawn(boost::asio::awaitable<void> work);
  // Ends the threads; nothing runs any more afterwards. Not from a loop thread. Idempotent.
  void Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Suspends the calling coroutine; kCancelled as soon as `cancellation` (may be null) fires.
boost::asio::awaitable<Status> SleepFor(Duration duration, Cancellation* cancellation);

}  // namespace ember::http
