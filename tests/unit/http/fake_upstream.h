// FakeUpstream: an engine whose every byte, cut and pause is the test's. Each accepted connection
// runs the script on a thread of its own; the script reads requests and writes replies on the raw
// socket.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "client/http/origin.h"
#include "tests/unit/http/test_socket.h"
#include "tests/unit/support/eventually.h"

namespace ember::http {

// A flag that one thread sets and another waits for.
class Signal {
 public:
  void Set() {
    set_.store(true);
    set_.notify_all();
  }
  bool Await(std::chrono::milliseconds patience = kPatience) const;
  bool is_set() const { return set_.load(); }

 private:
  std::atomic<bool> set_{false};
};

// Polls until `condition` holds; false after the deadline.
using ember::Eventually;

class FakeUpstream {
 public:
  using Script = std::function<void(TestSocket& peer)>;

  explicit FakeUpstream(Script script, uint16_t port = 0);
  ~FakeUpstream();

  Origin origin() const { return {"127.0.0.1", port_}; }
  // From now on nobody can connect; also from within the script.
  void StopListening() { shutdown(listener_, SHUT_RDWR); }
  int accepted() const { return accepted_.load(); }

 private:
  void AcceptLoop();

  Script script_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<int> accepted_{0};
  std::mutex mutex_;
  std::list<TestSocket> peers_;
  std::list<std::thread> threads_;
  std::thread acceptor_;
};

// A script that answers every request of a connection with these bytes, in one piece.
FakeUpstream::Script AnswerAlways(std::string reply);

}  // namespace ember::http
