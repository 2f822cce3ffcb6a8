#include "client/agent/agent_service.h"

#include <grpcpp/grpcpp.h>

#include "client/agent/identity.h"
#include "proto/rpc/agent.grpc.pb.h"

namespace ember::agent {
namespace {
constexpr size_t kMaxChainBlocks = 1u << 16;
constexpr int kMaxMessageBytes = 64 << 20;
constexpr int kMaxStreams = 100;  // of a connection, at a time
constexpr Duration kLookForCancel = milliseconds(100);

template <typename Blocks>
std::string Join(const Blocks& blocks) {
  std::string out;
  out.reserve(blocks.size() * sizeof(BlockHash));
  for (const BlockHash& block : blocks) out += AsString(block.bytes);
  return out;
}

void Fill(const FeedHeld& held, rpc::HeldPrefix* out) {
  out->set_slot(held.slot);
  out->set_block_hashes(Join(held.blocks));
}

void Fill(const FeedReport& report, rpc::ReplicaReport* out) {
  out->set_healthy(report.healthy);
  out->set_slots_total(report.load.slots_total);
  out->set_running(report.load.running);
  out->set_waiting(report.load.waiting);
  out->set_pending_prefill_tokens(report.load.pending_prefill_tokens);
  out->set_prefill_linear_ms(report.prefill.linear_ms);
  out->set_prefill_context_ms(report.prefill.context_ms);
  out->set_load_tokens_per_ms(report.load_tokens_per_ms);
  out->set_cached_tokens_total(report.cached_tokens_total);
  out->set_computed_tokens_total(report.computed_tokens_total);
}

void Fill(const FeedSnapshot& snapshot, const std::string& replica_id, rpc::Snapshot* out) {
  out->set_replica_id(replica_id);
  if (snapshot.space) {
    out->set_namespace_id(std::string(AsString(snapshot.space->id.bytes)));
    out->set_namespace_seed(snapshot.space->seed);
  }
  out->set_tokens_per_block(kTokensPerBlock);
  for (const FeedHeld& held : snapshot.held) Fill(held, out->add_held());
  Fill(snapshot.report, out->mutable_report());
  out->set_model(snapshot.model);
}

grpc::Status ToGrpc(const Status& status) {
  grpc::StatusCode code = grpc::StatusCode::INTERNAL;
  switch (status.code()) {
    case StatusCode::kOk:
      return grpc::Status::OK;
    case StatusCode::kInvalid:
      code = grpc::StatusCode::INVALID_ARGUMENT;
      break;
    case StatusCode::kUnavailable:
      code = grpc::StatusCode::UNAVAILABLE;
      break;
    case StatusCode::kBusy:
      code = grpc::StatusCode::RESOURCE_EXHAUSTED;
      break;
    case StatusCode::kDeadline:
      code = grpc::StatusCode::DEADLINE_EXCEEDED;
      break;
    case StatusCode::kCancelled:
      code = grpc::StatusCode::CANCELLED;
      break;
    default:
      break;
  }
  return {code, std::string(status.message())};
}

rpc::PrefetchReply::Outcome OutcomeOf(PrefetchAnswer::Kind kind) {
  switch (kind) {
    case PrefetchAnswer::kAccepted:
      return rpc::PrefetchReply::ACCEPTED;
    case PrefetchAnswer::kAlreadyThere:
      return rpc::PrefetchReply::ALREADY_THERE;
    case PrefetchAnswer::kNoRoom:
      return rpc::PrefetchReply::NO_ROOM;
    case PrefetchAnswer::kNothing:
      break;
  }
  return rpc::PrefetchReply::NOTHING;
}

class Service final : public rpc::Agent::Service {
 public:
  Service(std::string replica_id, agent::Agent& agent)
      : replica_id_(std::move(replica_id)), agent_(agent) {}

  grpc::Status Watch(grpc::ServerContext* context, const rpc::WatchRequest*,
                     grpc::ServerWriter<rpc::AgentEvent>* writer) override {
    Result<std::unique_ptr<AgentFeed::Watcher>> watcher = agent_.feed().Watch();
    if (!watcher.ok()) return ToGrpc(watcher.status());
    while (!context->IsCancelled()) {
      Result<std::optional<FeedEvent>> event = (*watcher)->Next(kLookForCancel);
      if (!event.ok()) return ToGrpc(event.status());
      if (event->has_value() && !writer->Write(ToMessage(**event))) break;
    }
    return grpc::Status::OK;
  }

  grpc::Status LongestPrefix(grpc::ServerContext*, const rpc::LongestPrefixRequest* request,
                             rpc::LongestPrefixReply* reply) override {
    const std::string& bytes = request->block_hashes();
    if (bytes.size() % sizeof(BlockHash) != 0 ||
        bytes.size() / sizeof(BlockHash) > kMaxChainBlocks) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "block_hashes: 16 bytes each"};
    }
    std::vector<BlockHash> chain(bytes.size() / sizeof(BlockHash));
    if (!chain.empty()) std::memcpy(chain.data(), bytes.data(), bytes.size());
    reply->set_local_blocks(static_cast<uint32_t>(agent_.feed().LongestPrefix(chain)));
    reply->set_store_blocks(static_cast<uint32_t>(agent_.StorePrefix(chain)));
    return grpc::Status::OK;
  }

  grpc::Status Tokenize(grpc::ServerContext*, const rpc::TokenizeRequest* request,
                        rpc::TokenizeReply* reply) override {
    Result<TokenizedRequest> tokenized = agent_.Tokenize(request->path(), request->body());
    if (!tokenized.ok()) return ToGrpc(tokenized.status());
    reply->set_token_count(tokenized->token_count);
    reply->set_block_hashes(Join(tokenized->blocks));
    reply->set_namespace_id(std::string(AsString(tokenized->ns.bytes)));
    return grpc::Status::OK;
  }

  grpc::Status Prefetch(grpc::ServerContext*, const rpc::PrefetchRequest* request,
                        rpc::PrefetchReply* reply) override {
    const PrefetchAnswer answer =
        agent_.Prefetch({request->path(),
                         request->body(),
                         {request->token_ids().begin(), request->token_ids().end()},
                         request->tokens()});
    reply->set_outcome(OutcomeOf(answer.kind));
    reply->set_reason(answer.reason);
    return grpc::Status::OK;
  }

 private:
  rpc::AgentEvent ToMessage(const FeedEvent& event) const {
    rpc::AgentEvent out;
    out.set_incarnation(agent_.feed().incarnation());
    out.set_sequence(event.sequence);
    if (const auto* snapshot = std::get_if<FeedSnapshot>(&event.what)) {
      Fill(*snapshot, replica_id_, out.mutable_snapshot());
    } else if (const auto* held = std::get_if<FeedHeld>(&event.what)) {
      Fill(*held, out.mutable_change()->mutable_held());
    } else {
      Fill(std::get<FeedReport>(event.what), out.mutable_report());
    }
    return out;
  }

  const std::string replica_id_;
  agent::Agent& agent_;
};
}  // namespace

struct AgentServer::Impl {
  Impl(const std::string& replica_id, Agent& agent_in)
      : agent(agent_in), service(replica_id, agent_in) {}
  Agent& agent;
  Service service;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

AgentServer::AgentServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<AgentServer>> AgentServer::Listen(const http::Origin& address,
                                                         const std::string& replica_id,
                                                         Agent& agent) {
  auto impl = std::make_unique<Impl>(replica_id, agent);
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Streams that are opened and reset at once take memory until they are served: few at a time.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddListeningPort(address.ToString(), grpc::InsecureServerCredentials(), &impl->port);
  builder.RegisterService(&impl->service);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || impl->port == 0) {
    return UnavailableError("--grpc: cannot listen on " + address.ToString() +
                            ": in use or not ours");
  }
  return std::unique_ptr<AgentServer>(new AgentServer(std::move(impl)));
}

AgentServer::~AgentServer() {
  impl_->agent.feed().Close();
  impl_->server->Shutdown(std::chrono::system_clock::now() + milliseconds(500));
}

uint16_t AgentServer::port() const { return static_cast<uint16_t>(impl_->port); }

}  // namespace ember::agent
