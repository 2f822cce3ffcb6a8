#include "client/cli/control_client.h"

#include <grpcpp/grpcpp.h>

#include <future>

#include "proto/rpc/router.grpc.pb.h"
#include "proto/rpc/store.grpc.pb.h"

namespace ember::cli {
namespace {

template <typename Service>
auto StubFor(const io::Endpoint& endpoint) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // nodes are neighbours
  return Service::NewStub(grpc::CreateCustomChannel(endpoint.ToString(),
                                                    grpc::InsecureChannelCredentials(), arguments));
}

Status ToStatus(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return DeadlineError("no answer in time");
  }
  // gRPC puts the system's reason last: "...: Failed to connect to remote host: Connection
  // refused".
  const std::string& message = status.error_message();
  const size_t reason = message.rfind(": ");
  return UnavailableError(reason == message.npos ? message : message.substr(reason + 2));
}

void SetDeadline(Duration timeout, grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() +
                        std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout));
}

}  // namespace

Result<rpc::StoreStatus> FetchStoreStatus(const io::Endpoint& endpoint, Duration timeout) {
  grpc::ClientContext context;
  SetDeadline(timeout, &context);
  rpc::StoreStatus reply;
  const grpc::Status status = StubFor<rpc::StoreControl>(endpoint)->GetStatus(&context, {}, &reply);
  if (!status.ok()) return ToStatus(status);
  return reply;
}

Result<rpc::PurgeReply> PurgeStore(const io::Endpoint& endpoint, const rpc::PurgeRequest& request,
                                   Duration timeout) {
  grpc::ClientContext context;
  SetDeadline(timeout, &context);
  rpc::PurgeReply reply;
  const grpc::Status status =
      StubFor<rpc::StoreControl>(endpoint)->Purge(&context, request, &reply);
  if (!status.ok()) return ToStatus(status);
  return reply;
}

Result<rpc::RouterStatus> FetchRouterStatus(const io::Endpoint& endpoint, Duration timeout) {
  grpc::ClientContext context;
  SetDeadline(timeout, &context);
  rpc::RouterStatus reply;
  const grpc::Status status = StubFor<rpc::Router>(endpoint)->GetStatus(&context, {}, &reply);
  if (!status.ok()) return ToStatus(status);
  return reply;
}

std::vector<Result<rpc::StoreStatus>> FetchStoreStatuses(const std::vector<io::Endpoint>& endpoints,
                                                         Duration timeout) {
  std::vector<std::future<Result<rpc::StoreStatus>>> asked;
  for (const io::Endpoint& endpoint : endpoints) {
    asked.push_back(std::async(
        std::launch::async, [&endpoint, timeout] { return FetchStoreStatus(endpoint, timeout); }));
  }
  std::vector<Result<rpc::StoreStatus>> statuses;
  for (auto& future : asked) statuses.push_back(future.get());
  return statuses;
}

}  // namespace ember::cli
