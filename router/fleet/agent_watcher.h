// AgentWatcher: follows one agent's Watch stream and tells the listener, on the router's loop, what
// it says. It connects again, with a growing pause, whenever the stream ends or skips a number, and
// believes nothing: sizes are bounded, numbers are finite.
//
// Concurrency: a thread of its own. The listener is called on the loop's thread only, one event at
// a time: a slow loop holds the stream back instead of piling events up. Life: loop and listener
// must outlive it; destroy it from any thread but the loop's.
#pragma once

#include <memory>
#include <string>

#include "client/http/loop.h"
#include "router/fleet/agent_event.h"

namespace ember::router {

class AgentWatcher {
 public:
  // `address`: HOST:PORT of the agent's gRPC port.
  AgentWatcher(http::HttpLoop& loop, AgentListener& listener, ReplicaNumber replica,
               const std::string& address);
  ~AgentWatcher();
  // The listener hears nothing more. On the loop's thread.
  void Mute();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ember::router
