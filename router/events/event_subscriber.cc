#include "router/events/event_subscriber.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "client/http/loop_handover.h"
#include "router/events/event_source.h"

namespace ember::router {
namespace {

// Bounds how long the loop is taken, about 0.1 ms, and how many events wait for it.
constexpr size_t kBlocksAtOnce = 512;
// Of one source before the next one's turn.
constexpr size_t kMessagesAtOnce = 64;
constexpr Duration kLongestWait = seconds(10);

struct Lost {
  Status why;
};
struct Trusted {};
struct Connection {
  bool connected;
};

struct Told {
  EventSourceId source;
  std::optional<uint32_t> rank;
  std::variant<KvEvent, Lost, Trusted, Connection> what;
};

// What the loop has to do for it, in blocks: their names are hashed, kept or not, and cost more
// when they are long.
size_t WorkOf(const KvEvent& event) {
  constexpr size_t kTokensOfABlock = 64;
  if (const auto* stored = std::get_if<KvStored>(&event)) {
    const size_t tokens = stored->tokens.size();
    const size_t blocks = tokens == 0 ? 0 : tokens / stored->block_size;
    return std::max(stored->keys.size(), blocks) + tokens / kTokensOfABlock;
  }
  if (const auto* removed = std::get_if<KvRemoved>(&event)) return removed->keys.size();
  return kBlocksAtOnce / 8;  // emptying a cache is work too
}

void Tell(EventListener& listener, const Told& told) {
  if (const auto* lost = std::get_if<Lost>(&told.what)) {
    listener.OnLost(told.source, lost->why);
  } else if (std::holds_alternative<Trusted>(told.what)) {
    listener.OnTrusted(told.source);
  } else if (const auto* connection = std::get_if<Connection>(&told.what)) {
    listener.OnConnection(told.source, connection->connected);
  } else {
    TellEvent(listener, told.source, told.rank, std::get<KvEvent>(told.what));
  }
}

}  // namespace

struct EventSubscriber::Impl {
  // What one source's stream says joins the others' in `told`.
  struct Followed final : EventStream::Sink {
    Followed(Impl& impl_in, EventSourceId id_in, EventEndpoint events,
             std::optional<EventEndpoint> replay)
        : impl(impl_in),
          id(id_in),
          source(std::move(events), std::move(replay), impl.context, impl.options, *this,
                 impl.metrics, [this](bool connected) {
                   impl.Add({id, std::nullopt, Connection{connected}}, 1);
                 }) {}

    void OnBatch(KvEventBatch batch, bool live) override;
    void OnLost(const Status& why) override { impl.Add({id, std::nullopt, Lost{why}}, 1); }
    void OnTrusted() override { impl.Add({id, std::nullopt, Trusted{}}, 1); }

    Impl& impl;
    const EventSourceId id;
    EventSource source;
  };
  struct Command {
    EventSourceId id;
    std::optional<std::pair<EventEndpoint, std::optional<EventEndpoint>>> add;  // else remove
  };

  Impl(http::HttpLoop& loop, EventListener& listener_in, EventMetrics& metrics_in,
       EventStreamOptions options_in)
      : listener(listener_in),
        metrics(metrics_in),
        options(options_in),
        handover(loop),
        wake(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    EMBER_CHECK(wake >= 0, "an eventfd");
  }
  ~Impl() { close(wake); }

  void Run();
  void TakeCommands();
  void Add(Told event, size_t work);
  void Flush();
  void Wake() { eventfd_write(wake, 1); }

  EventListener& listener;
  EventMetrics& metrics;
  const EventStreamOptions options;
  http::LoopHandover handover;
  const int wake;

  std::mutex mutex;
  std::vector<Command> commands;  // under mutex
  EventSourceId last_id = 0;      // under mutex

  // The thread's own.
  EventSocketContext context;
  std::map<EventSourceId, std::unique_ptr<Followed>> sources;
  std::vector<Told> told;
  size_t told_work = 0;
  std::thread thread;
};

void EventSubscriber::Impl::Followed::OnBatch(KvEventBatch batch, bool live) {
  EventMetrics& m = impl.metrics;
  m.unknown_types.Add(batch.unknown_types);
  m.unknown_media.Add(batch.unknown_media);
  m.unusable.Add(batch.unusable);
  if (live && batch.timestamp > 0) {
    const double now = static_cast<double>(SystemWallClock().NowMs()) / 1000;
    m.lag.Observe(std::max(0.0, now - batch.timestamp));
  }
  for (KvEvent& event : batch.events) {
    const size_t work = WorkOf(event);
    impl.Add({id, batch.rank, std::move(event)}, work);
  }
}

void EventSubscriber::Impl::Run() {
  while (!handover.closed()) {
    TakeCommands();
    bool more = false;
    for (const auto& [id, followed] : sources) {
      more = followed->source.Work(kMessagesAtOnce) || more;
    }
    Flush();
    if (more) continue;
    std::vector<const EventSocket*> sockets;
    const TimePoint now = SteadyClock().Now();
    TimePoint until = now + kLongestWait;
    for (const auto& [id, followed] : sources) {
      for (const EventSocket* socket : followed->source.sockets()) sockets.push_back(socket);
      until = std::min(until, followed->source.deadline().value_or(until));
    }
    EventSocket::Wait(sockets, wake, std::max(until - now, Duration::zero()));
  }
  sources.clear();
}

void EventSubscriber::Impl::TakeCommands() {
  eventfd_t ignored;
  eventfd_read(wake, &ignored);
  std::vector<Command> taken;
  {
    const std::lock_guard lock(mutex);
    taken.swap(commands);
  }
  for (Command& command : taken) {
    if (command.add) {
      sources[command.id] = std::make_unique<Followed>(
          *this, command.id, std::move(command.add->first), std::move(command.add->second));
    } else {
      sources.erase(command.id);
    }
  }
  metrics.sources.Set(static_cast<double>(sources.size()));
}

void EventSubscriber::Impl::Add(Told event, size_t work) {
  // An event is never cut: one that is too much by itself goes alone.
  if (told_work + work >= kBlocksAtOnce) Flush();
  told.push_back(std::move(event));
  told_work += work + 1;
  if (told_work >= kBlocksAtOnce) Flush();
}

void EventSubscriber::Impl::Flush() {
  size_t next = 0;
  const auto tell = [this, &next] {
    for (size_t further = 0; next < told.size() && further < kBlocksAtOnce;) {
      Tell(listener, told[next++]);
      further += listener.TakeFurtherWork();
    }
  };
  while (next < told.size() && handover.Run(tell)) {
  }
  told.clear();
  told_work = 0;
}

EventSubscriber::EventSubscriber(http::HttpLoop& loop, EventListener& listener,
                                 EventMetrics& metrics, EventStreamOptions stream)
    : impl_(std::make_unique<Impl>(loop, listener, metrics, stream)) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->Run(); });
}

EventSubscriber::~EventSubscriber() {
  impl_->handover.Close();
  impl_->Wake();
  impl_->thread.join();
}

EventSourceId EventSubscriber::Add(EventEndpoint events, std::optional<EventEndpoint> replay) {
  const std::lock_guard lock(impl_->mutex);
  const EventSourceId id = ++impl_->last_id;
  impl_->commands.push_back({id, std::pair(std::move(events), std::move(replay))});
  impl_->Wake();
  return id;
}

void EventSubscriber::Remove(EventSourceId source) {
  const std::lock_guard lock(impl_->mutex);
  impl_->commands.push_back({source, std::nullopt});
  impl_->Wake();
}

}  // namespace ember::router
