#include "router/tokenize/grpc_agent_client.h"

#include <grpcpp/grpcpp.h>

#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <condition_variable>
#include <mutex>

#include "proto/rpc/agent.grpc.pb.h"
#include "router/fleet/agent_message.h"

namespace ember::router {
namespace {

namespace asio = boost::asio;

struct Call {
  grpc::ClientContext context;
  rpc::TokenizeRequest request;
  rpc::TokenizeReply reply;
};

StatusCode CodeOf(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::UNIMPLEMENTED:
      return StatusCode::kInvalid;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return StatusCode::kDeadline;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return StatusCode::kBusy;
    case grpc::StatusCode::CANCELLED:
      return StatusCode::kCancelled;
    case grpc::StatusCode::UNAVAILABLE:
      return StatusCode::kUnavailable;
    default:
      return StatusCode::kInternal;
  }
}

Result<TokenizedPrompt> ReadPrompt(const rpc::TokenizeReply& reply) {
  auto ns = ReadNamespace(reply.namespace_id());
  if (!ns.ok()) return ns.status();
  if (!ns->has_value()) return UnavailableError("the engine's identity is not known yet");
  Result<BlockChain> chain = ReadChain(reply.block_hashes());
  if (!chain.ok()) return chain.status();
  return TokenizedPrompt{
      .token_count = reply.token_count(), .ns = **ns, .chain = *std::move(chain)};
}

}  // namespace

struct GrpcAgentClient::Impl {
  std::vector<std::unique_ptr<rpc::Agent::Stub>> stubs;  // null: no agent
  std::mutex mutex;
  std::condition_variable idle;
  size_t under_way = 0;

  void Begin() {
    std::lock_guard lock(mutex);
    ++under_way;
  }
  void End() {
    std::lock_guard lock(mutex);
    if (--under_way == 0) idle.notify_all();
  }
  asio::awaitable<grpc::Status> Send(ReplicaNumber replica, std::shared_ptr<Call> call);
};

GrpcAgentClient::GrpcAgentClient(const std::vector<ReplicaConfig>& replicas)
    : impl_(std::make_unique<Impl>()) {
  for (const ReplicaConfig& replica : replicas) {
    impl_->stubs.push_back(replica.grpc.empty()
                               ? nullptr
                               : rpc::Agent::NewStub(grpc::CreateChannel(
                                     replica.grpc, grpc::InsecureChannelCredentials())));
  }
}

GrpcAgentClient::~GrpcAgentClient() {
  std::unique_lock lock(impl_->mutex);
  impl_->idle.wait(lock, [this] { return impl_->under_way == 0; });
}

bool GrpcAgentClient::CanAsk(ReplicaNumber replica) const {
  return replica < impl_->stubs.size() && impl_->stubs[replica] != nullptr;
}

asio::awaitable<grpc::Status> GrpcAgentClient::Impl::Send(ReplicaNumber replica,
                                                          std::shared_ptr<Call> call) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  auto start = [&](auto handler) {
    // gRPC wants something that can be copied.
    auto shared = std::make_shared<decltype(handler)>(std::move(handler));
    Begin();
    stubs[replica]->async()->Tokenize(
        &call->context, &call->request, &call->reply,
        [this, call, executor, shared](grpc::Status status) {
          asio::post(executor, [shared, status] { std::move (*shared)(status); });
          End();
        });
  };
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>, void(grpc::Status)>(
      std::move(start), asio::use_awaitable);
}

asio::awaitable<Result<TokenizedPrompt>> GrpcAgentClient::Tokenize(ReplicaNumber replica,
                                                                   std::string_view path,
                                                                   std::string_view body,
                                                                   Duration deadline) {
  auto call = std::make_shared<Call>();
  call->context.set_deadline(std::chrono::system_clock::now() +
                             std::chrono::duration_cast<microseconds>(deadline));
  call->request.set_path(std::string(path));
  call->request.set_body(std::string(body));
  const grpc::Status status = co_await impl_->Send(replica, call);
  if (!status.ok()) co_return Status(CodeOf(status.error_code()), status.error_message());
  co_return ReadPrompt(call->reply);
}

}  // namespace ember::router
