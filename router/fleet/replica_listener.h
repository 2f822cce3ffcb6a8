// ReplicaListener: who wants to know that replicas come, change and go. Called on the router's loop
// thread, inside the change; may not change the set itself.
#pragma once

#include "router/fleet/endpoint.h"

namespace ember::router {

class ReplicaListener {
 public:
  virtual ~ReplicaListener() = default;
  // All members of the endpoint are there, none is usable yet.
  virtual void OnAdded(const Endpoint&) {}
  // Became usable, stopped being so, or another state.
  virtual void OnStateChanged(const Endpoint&) {}
  // It is about to be used again after it was put out: what was known of its memory may be that of
  // another process.
  virtual void OnReadmitted(const Endpoint&) {}
  // No new request, probe or question goes there from now on. Its numbers are given to others only
  // after OnGone.
  virtual void OnRemoved(const Endpoint&) {}
  // Other models than before, as it lists them.
  virtual void OnModelsChanged(const Endpoint&) {}
  // It did not know a model that it had listed.
  virtual void OnModelsDoubted(const Endpoint&) {}
  // It may be dying: it is better probed at once.
  virtual void OnDoubted(const Endpoint&) {}
  // It was doubted, and takes no connections or says that it is not well.
  virtual void OnFoundDead(const Endpoint&) {}
  // Its last request has ended.
  virtual void OnGone(const Endpoint&) {}
};

}  // namespace ember::router
