// NameResolver: the addresses of host names, as the system tells them. A name that hangs holds up
// nobody but those who ask for it: each is looked up by one thread at a time, for all who ask
// meanwhile, and several names at once; where all threads hang more are begun. Nobody waits for a
// look-up that he has given up, and neither does the resolver's end: the system's call cannot be
// stopped.
//
// Concurrency: LookUp from any coroutine; Close, which comes before the executors' end, from any
// thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/address.hpp>
#include <memory>
#include <string>
#include <vector>

#include "client/http/cancellation.h"

namespace ember::http {

class NameResolver {
 public:
  // Names that are looked up at one time; more wait a moment, then have threads of their own, up to
  // so many in all.
  static constexpr size_t kMaxThreads = 8;
  static constexpr size_t kMaxHanging = 256;

  struct Answer {
    boost::system::error_code ec;
    std::vector<boost::asio::ip::address> addresses;  // without an error at least one
  };

  NameResolver();
  ~NameResolver() { Close(); }
  NameResolver(const NameResolver&) = delete;
  NameResolver& operator=(const NameResolver&) = delete;

  // operation_aborted as soon as `cancellation` (may be null) fires. Takes as long as the system
  // likes otherwise.
  boost::asio::awaitable<Answer> LookUp(std::string name, Cancellation* cancellation);
  // Nobody is answered any more. Idempotent.
  void Close();

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with the threads
};

}  // namespace ember::http
