// EventSubscriber: follows the event streams of all engines and tells the listener, on the router's
// loop, what they say. It only connects out, reads, and asks for replays; a publisher never waits
// for it: what a slow loop leaves unread, the publisher drops, and the gap is found.
//
// Concurrency: a thread of its own, and ZeroMQ's. Add and Remove from any thread. The listener is
// called on the loop's thread only, some events at a time, each waited for; a source that was
// removed on the loop's thread is not heard of afterwards.
// Life: loop, listener and metrics must outlive it; destroy it from any thread but the loop's.
#pragma once

#include <memory>
#include <optional>

#include "client/http/loop.h"
#include "router/events/event_listener.h"
#include "router/events/event_stream.h"
#include "router/fleet/event_endpoint.h"

namespace ember::router {

class EventSubscriber {
 public:
  // `stream`: has_replay is decided for each source.
  EventSubscriber(http::HttpLoop& loop, EventListener& listener, EventMetrics& metrics,
                  EventStreamOptions stream);
  ~EventSubscriber();

  // Nothing is heard of the source before the loop has done what it is at.
  EventSourceId Add(EventEndpoint events, std::optional<EventEndpoint> replay);
  void Remove(EventSourceId source);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ember::router
