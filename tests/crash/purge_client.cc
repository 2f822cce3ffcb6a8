#include "tests/crash/purge_client.h"

#include <grpcpp/grpcpp.h>

#include "proto/rpc/store.grpc.pb.h"

namespace ember::testing {

// A channel for each call, so that none waits for its next try to connect to a node that was down.
Status PurgeClient::Purge(const Scope& scope, Duration timeout) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel =
      grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
  const auto stub = rpc::StoreControl::NewStub(channel);
  rpc::PurgeRequest request;
  switch (scope.kind) {
    case Scope::Kind::kNamespace:
      request.set_namespace_id(scope.ns.bytes.data(), scope.ns.bytes.size());
      break;
    case Scope::Kind::kTenant:
      request.set_tenant(scope.tenant);
      break;
    case Scope::Kind::kEverything:
      request.set_everything(true);
      break;
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout));
  rpc::PurgeReply reply;
  const grpc::Status status = stub->Purge(&context, request, &reply);
  if (!status.ok()) return UnavailableError(status.error_message());
  if (!reply.durable()) return InternalError("the purge is acknowledged, but not durable");
  return OkStatus();
}

}  // namespace ember::testing
