#include "router/fleet/agent_watcher.h"

#include <grpcpp/grpcpp.h>

#include <functional>
#include <mutex>
#include <thread>

#include "client/http/loop_handover.h"
#include "proto/rpc/agent.grpc.pb.h"
#include "router/fleet/agent_message.h"

namespace ember::router {
namespace {

constexpr int kMaxEventBytes = 64 << 20;
constexpr Duration kFirstPause = milliseconds(100);
constexpr Duration kLongestPause = seconds(2);

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxEventBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // agents are neighbours
  // An agent that is back must be found within our own pauses.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

struct AgentWatcher::Impl {
  Impl(http::HttpLoop& loop_in, AgentListener& listener_in, ReplicaNumber replica_in,
       const std::string& address)
      : listener(listener_in),
        replica(replica_in),
        stub(rpc::Agent::NewStub(ChannelTo(address))),
        handover(loop_in) {}

  void Run();
  // One stream from its start to its end, which is why it returns.
  Status Follow();
  Status Handle(const rpc::AgentEvent& event);
  void Mute();
  void Stop();

  AgentListener& listener;
  const ReplicaNumber replica;
  const std::unique_ptr<rpc::Agent::Stub> stub;
  http::LoopHandover handover;
  std::mutex mutex;
  grpc::ClientContext* context = nullptr;  // of the stream being read
  bool stopping = false;
  uint64_t incarnation = 0;
  uint64_t next_sequence = 0;
  bool has_snapshot = false;
  std::thread thread;
};

void AgentWatcher::Impl::Run() {
  Duration pause = kFirstPause;
  for (;;) {
    has_snapshot = false;
    const Status why = Follow();
    if (has_snapshot) pause = kFirstPause;
    if (!handover.Run([this, why] { listener.OnLost(replica, why); })) return;
    if (!handover.Pause(pause)) return;
    pause = std::min(2 * pause, kLongestPause);
  }
}

Status AgentWatcher::Impl::Follow() {
  grpc::ClientContext own_context;
  {
    const std::lock_guard lock(mutex);
    if (stopping) return CancelledError("stopping");
    context = &own_context;
  }
  const auto reader = stub->Watch(&own_context, rpc::WatchRequest());
  rpc::AgentEvent event;
  Status why;
  while (why.ok() && reader->Read(&event)) why = Handle(event);
  if (!why.ok()) own_context.TryCancel();
  const grpc::Status end = reader->Finish();
  {
    const std::lock_guard lock(mutex);
    context = nullptr;
  }
  if (!why.ok()) return why;
  return UnavailableError(end.ok() ? "the agent ended the stream" : end.error_message());
}

Status AgentWatcher::Impl::Handle(const rpc::AgentEvent& event) {
  const bool snapshot = event.event_case() == rpc::AgentEvent::kSnapshot;
  if (!snapshot &&
      (!has_snapshot || event.incarnation() != incarnation || event.sequence() != next_sequence)) {
    return MismatchError("the stream skipped from event " + std::to_string(next_sequence) + " to " +
                         std::to_string(event.sequence()));
  }
  std::function<void()> work;
  if (snapshot) {
    Result<AgentSnapshot> read = ReadSnapshot(event.snapshot());
    if (!read.ok()) return read.status();
    work = [this, s = *std::move(read)]() mutable { listener.OnSnapshot(replica, std::move(s)); };
  } else if (event.event_case() == rpc::AgentEvent::kChange) {
    Result<HeldChain> held = ReadHeld(event.change().held());
    if (!held.ok()) return held.status();
    work = [this, h = *std::move(held)]() mutable { listener.OnHeld(replica, std::move(h)); };
  } else if (event.event_case() == rpc::AgentEvent::kReport) {
    work = [this, r = ReadReport(event.report())] { listener.OnReport(replica, r); };
  }
  // An event of a kind that a newer agent knows only counts.
  if (work && !handover.Run(std::move(work))) return CancelledError("stopping");
  has_snapshot = true;
  incarnation = event.incarnation();
  next_sequence = event.sequence() + 1;
  return OkStatus();
}

void AgentWatcher::Impl::Mute() {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
    if (context != nullptr) context->TryCancel();
  }
  handover.Close();
}

void AgentWatcher::Impl::Stop() {
  Mute();
  thread.join();
}

AgentWatcher::AgentWatcher(http::HttpLoop& loop, AgentListener& listener, ReplicaNumber replica,
                           const std::string& address)
    : impl_(std::make_unique<Impl>(loop, listener, replica, address)) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->Run(); });
}

void AgentWatcher::Mute() { impl_->Mute(); }

AgentWatcher::~AgentWatcher() { impl_->Stop(); }

}  // namespace ember::router
