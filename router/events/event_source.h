// EventSource: one engine's event stream: its sockets, and the EventStream that they feed. One
// thread (EventSubscriber's).
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "router/events/event_socket.h"
#include "router/events/event_stream.h"
#include "router/events/reopen_pause.h"
#include "router/fleet/event_endpoint.h"

namespace ember::router {

class EventSource {
 public:
  EventSource(EventEndpoint events, std::optional<EventEndpoint> replay,
              EventSocketContext& context, const EventStreamOptions& options,
              EventStream::Sink& sink, EventMetrics& metrics,
              std::function<void(bool connected)> on_connection);

  // Reads at most `max_messages`, and does what is due. True: there may be more to read.
  bool Work(size_t max_messages);

  // What to wait for.
  std::vector<const EventSocket*> sockets() const;
  std::optional<TimePoint> deadline() const;

 private:
  // True: a message was read.
  bool ReadLive(TimePoint now);
  bool ReadReplay(TimePoint now);
  void FollowChanges(TimePoint now);
  void SetConnected(bool connected);
  // Opens and closes the replay's socket as the stream wants it.
  void KeepReplay(TimePoint now);
  void KeepSubscription(TimePoint now);
  // The subscription gave garbage, broke or can't be had: it is closed for a while.
  void CloseSubscription(const Status& why, TimePoint now);

  const EventEndpoint events_;
  const std::optional<EventEndpoint> replay_endpoint_;
  EventSocketContext& context_;
  EventMetrics& metrics_;
  const std::function<void(bool)> on_connection_;
  std::optional<bool> connected_;  // nothing: not known yet
  EventStream stream_;
  std::optional<EventSocket> subscription_;
  bool lost_ = false;  // subscription_ is of no use but for what waits in it
  std::optional<EventSocket> replay_;
  uint64_t replay_number_ = 0;  // of replay_
  bool replay_connected_ = false;
  std::optional<TimePoint> reopen_at_ = TimePoint::min();
  ReopenPause pause_;
};

}  // namespace ember::router
