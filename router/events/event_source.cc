#include "router/events/event_source.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "router/events/event_message.h"

namespace ember::router {

EventSource::EventSource(EventEndpoint events, std::optional<EventEndpoint> replay,
                         EventSocketContext& context, const EventStreamOptions& options,
                         EventStream::Sink& sink, EventMetrics& metrics,
                         std::function<void(bool connected)> on_connection)
    : events_(std::move(events)),
      replay_endpoint_(std::move(replay)),
      context_(context),
      metrics_(metrics),
      on_connection_(std::move(on_connection)),
      stream_(
          [&] {
            EventStreamOptions own = options;
            own.has_replay = replay_endpoint_.has_value();
            return own;
          }(),
          sink, metrics) {}

bool EventSource::Work(size_t max_messages) {
  const TimePoint now = SteadyClock().Now();
  KeepSubscription(now);
  bool more = true;
  for (size_t i = 0; i < max_messages && more; ++i) {
    more = ReadLive(now);
    more = ReadReplay(now) || more;
  }
  // Only when nothing waits to be read: a time-out that was spent elsewhere is none.
  if (!more) stream_.Tick(now);
  KeepReplay(now);
  return more;
}

bool EventSource::ReadLive(TimePoint now) {
  if (!subscription_) return false;
  const auto frames = subscription_->Receive();
  FollowChanges(now);
  if (!frames) {
    if (lost_) CloseSubscription(UnavailableError("the connection ended"), now);
    return false;
  }
  const std::optional<EventMessage> message = EventMessage::Read(*frames);
  if (!message) {
    metrics_.malformed.Add();
    CloseSubscription(CorruptError("a message is no event message"), now);
    return true;
  }
  pause_.OnMessage();
  stream_.OnLive(message->sequence, message->payload, now);
  return true;
}

bool EventSource::ReadReplay(TimePoint now) {
  KeepReplay(now);
  if (!replay_) return false;
  const auto frames = replay_->Receive();
  if (!frames) {
    EventSocket::Change change;
    while ((change = replay_->NextChange()) != EventSocket::Change::kNone) {
      if (change == EventSocket::Change::kConnected) {
        replay_connected_ = true;
        continue;
      }
      // A batch that is too large for a frame ends the connection.
      stream_.OnReplayBroken(
          change == EventSocket::Change::kLost && replay_connected_
              ? CorruptError("the replay's connection ended in its answer: is a batch too large?")
              : UnavailableError("the replay's connection failed"),
          now);
      break;
    }
    return false;
  }
  const std::optional<EventMessage> message = EventMessage::Read(*frames);
  if (!message) {
    metrics_.malformed.Add();
    stream_.OnReplayBroken(CorruptError("the replay is garbage"), now);
  } else if (message->sequence == EventMessage::kEndOfReplay) {
    stream_.OnReplayEnd(now);
  } else {
    stream_.OnReplayed(message->sequence, message->payload, now);
  }
  return true;
}

void EventSource::FollowChanges(TimePoint now) {
  EventSocket::Change change;
  while (subscription_ && (change = subscription_->NextChange()) != EventSocket::Change::kNone) {
    SetConnected(change == EventSocket::Change::kConnected);
    if (change == EventSocket::Change::kConnected) {
      pause_.OnConnected(now);
      stream_.OnConnected(now);
    }
    if (change == EventSocket::Change::kLost) lost_ = true;
  }
}

void EventSource::SetConnected(bool connected) {
  if (connected_ == connected) return;
  if (!connected) spdlog::warn("events of {}: not connected; tried again", events_.address);
  if (connected && connected_) spdlog::info("events of {}: connected", events_.address);
  connected_ = connected;
  on_connection_(connected);
}

void EventSource::KeepReplay(TimePoint now) {
  const std::optional<EventStream::Replay> wanted = stream_.replay();
  if (!wanted) {
    replay_.reset();
    return;
  }
  if (replay_ && replay_number_ == wanted->number) return;
  replay_.reset();
  replay_number_ = wanted->number;
  Result<EventSocket> socket =
      EventSocket::AskReplay(context_, replay_endpoint_->address, wanted->from);
  if (!socket.ok()) return stream_.OnReplayBroken(socket.status(), now);
  replay_ = *std::move(socket);
  replay_connected_ = false;
}

void EventSource::KeepSubscription(TimePoint now) {
  if (!reopen_at_ || now < *reopen_at_) return;
  reopen_at_.reset();
  Result<EventSocket> socket = EventSocket::Subscribe(context_, events_.address);
  if (!socket.ok()) return CloseSubscription(socket.status(), now);
  subscription_ = *std::move(socket);
  lost_ = false;
}

void EventSource::CloseSubscription(const Status& why, TimePoint now) {
  // SetConnected has said already that there is no connection.
  if (connected_.value_or(true)) {
    spdlog::warn("events of {}: {}", events_.address, why.ToString());
  }
  SetConnected(false);
  subscription_.reset();
  reopen_at_ = now + pause_.Next(why.code() == StatusCode::kCorrupt, now);
}

std::vector<const EventSocket*> EventSource::sockets() const {
  std::vector<const EventSocket*> sockets;
  if (subscription_) sockets.push_back(&*subscription_);
  if (replay_) sockets.push_back(&*replay_);
  return sockets;
}

std::optional<TimePoint> EventSource::deadline() const {
  const std::optional<TimePoint> stream = stream_.deadline();
  if (!stream || !reopen_at_) return stream ? stream : reopen_at_;
  return std::min(*stream, *reopen_at_);
}

}  // namespace ember::router
