#include "tests/bench/replica/agent_door.h"

#include <grpcpp/grpcpp.h>

#include "proto/rpc/agent.grpc.pb.h"

namespace ember::bench {
namespace {

constexpr Duration kLookForCancel = milliseconds(100);

std::string Join(std::span<const BlockHash> blocks) {
  const ByteSpan bytes = std::as_bytes(blocks);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void Fill(const agent::FeedHeld& held, rpc::HeldPrefix* out) {
  out->set_slot(held.slot);
  out->set_block_hashes(Join(held.blocks));
}

void Fill(const agent::FeedReport& report, rpc::ReplicaReport* out) {
  out->set_healthy(report.healthy);
  out->set_slots_total(report.load.slots_total);
  out->set_running(report.load.running);
  out->set_waiting(report.load.waiting);
  out->set_pending_prefill_tokens(report.load.pending_prefill_tokens);
  out->set_prefill_linear_ms(report.prefill.linear_ms);
  out->set_load_tokens_per_ms(report.load_tokens_per_ms);
  out->set_cached_tokens_total(report.cached_tokens_total);
  out->set_computed_tokens_total(report.computed_tokens_total);
}

grpc::Status Dead() { return {grpc::StatusCode::UNAVAILABLE, "the replica is dead"}; }

class Service final : public rpc::Agent::Service {
 public:
  explicit Service(Replica& replica) : replica_(replica) {}

  grpc::Status Watch(grpc::ServerContext* context, const rpc::WatchRequest*,
                     grpc::ServerWriter<rpc::AgentEvent>* writer) override {
    const std::shared_ptr<agent::AgentFeed> feed = replica_.Feed();
    if (feed == nullptr) return Dead();
    const auto watcher = feed->Watch();
    if (!watcher.ok()) return Dead();
    while (!context->IsCancelled()) {
      const auto event = (*watcher)->Next(kLookForCancel);
      if (!event.ok()) return Dead();
      if (event->has_value() && !writer->Write(ToMessage(**event, feed->incarnation()))) break;
    }
    return grpc::Status::OK;
  }

  grpc::Status Tokenize(grpc::ServerContext*, const rpc::TokenizeRequest* request,
                        rpc::TokenizeReply* reply) override {
    if (replica_.Feed() == nullptr) return Dead();
    const Result<Prompt> prompt = Prompt::Of(request->path(), request->body());
    if (!prompt.ok()) {
      return {grpc::StatusCode::INVALID_ARGUMENT, std::string(prompt.status().message())};
    }
    reply->set_token_count(static_cast<uint32_t>(prompt->tokens));
    reply->set_block_hashes(Join(prompt->chain.hashes));
    reply->set_namespace_id(std::string(AsString(BenchSpace().id.bytes)));
    return grpc::Status::OK;
  }

  grpc::Status Prefetch(grpc::ServerContext*, const rpc::PrefetchRequest* request,
                        rpc::PrefetchReply* reply) override {
    if (replica_.Feed() == nullptr) return Dead();
    Result<Prompt> prompt = Prompt::Of(request->path(), request->body());
    reply->set_outcome(rpc::PrefetchReply::NOTHING);
    if (!prompt.ok() || !replica_.engine().loads()) return grpc::Status::OK;
    replica_.Hint(*std::move(prompt), request->tokens());
    reply->set_outcome(rpc::PrefetchReply::ACCEPTED);
    return grpc::Status::OK;
  }

 private:
  rpc::AgentEvent ToMessage(const agent::FeedEvent& event, uint64_t incarnation) const {
    rpc::AgentEvent out;
    out.set_incarnation(incarnation);
    out.set_sequence(event.sequence);
    if (const auto* snapshot = std::get_if<agent::FeedSnapshot>(&event.what)) {
      rpc::Snapshot* to = out.mutable_snapshot();
      to->set_replica_id("r" + std::to_string(replica_.number()));
      to->set_namespace_id(std::string(AsString(snapshot->space->id.bytes)));
      to->set_namespace_seed(snapshot->space->seed);
      to->set_tokens_per_block(snapshot->space->tokens_per_block);
      to->set_model(snapshot->model);
      for (const agent::FeedHeld& held : snapshot->held) Fill(held, to->add_held());
      Fill(snapshot->report, to->mutable_report());
    } else if (const auto* held = std::get_if<agent::FeedHeld>(&event.what)) {
      Fill(*held, out.mutable_change()->mutable_held());
    } else {
      Fill(std::get<agent::FeedReport>(event.what), out.mutable_report());
    }
    return out;
  }

  Replica& replica_;
};

}  // namespace

struct AgentDoor::Impl {
  explicit Impl(Replica& replica) : service(replica) {}
  Service service;
  std::unique_ptr<grpc::Server> server;
};

AgentDoor::AgentDoor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<AgentDoor>> AgentDoor::Listen(uint16_t port, Replica& replica) {
  auto impl = std::make_unique<Impl>(replica);
  const std::string address = "127.0.0.1:" + std::to_string(port);
  int bound = 0;
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &bound);
  builder.RegisterService(&impl->service);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || bound == 0) return UnavailableError(address + " is in use");
  return std::unique_ptr<AgentDoor>(new AgentDoor(std::move(impl)));
}

AgentDoor::~AgentDoor() = default;

}  // namespace ember::bench
