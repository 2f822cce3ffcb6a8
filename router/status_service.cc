#include "router/status_service.h"

#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include "proto/rpc/router.grpc.pb.h"

namespace ember::router {
namespace {

constexpr int kMaxStreams = 100;  // of a connection, at a time

void Fill(const ReplicaReport& r, rpc::ReplicaStatus* out) {
  out->set_id(r.id);
  out->set_http_address(r.http_address);
  out->set_healthy(r.healthy);
  out->set_model(r.model);
  out->set_running(r.load.running);
  out->set_waiting(r.load.waiting);
  out->set_in_flight(r.under_way);
  out->set_blocks_held(r.held.any);
  out->set_requests(r.totals.requests);
  out->set_routed_local(r.totals.routed_local);
  out->set_routed_remote(r.totals.routed_remote);
  out->set_routed_recompute(r.totals.routed_recompute);
  out->set_cached_tokens(r.totals.cached_tokens);
  out->set_computed_tokens(r.totals.computed_tokens);
}

class RouterRpc final : public rpc::Router::Service {
 public:
  explicit RouterRpc(StatusService::GetStatus status) : status_(std::move(status)) {}

  grpc::Status GetStatus(grpc::ServerContext*, const rpc::GetRouterStatusRequest*,
                         rpc::RouterStatus* out) override {
    const Result<StatusReport> report = status_();
    if (!report.ok()) {
      return {grpc::StatusCode::UNAVAILABLE, std::string(report.status().message())};
    }
    out->set_version(EMBER_VERSION);
    out->set_default_policy(report->default_policy);
    out->set_uptime_seconds(report->uptime_seconds);
    out->set_index_blocks(report->index_blocks);
    out->set_stopping(report->stopping);
    for (const ReplicaReport& r : report->replicas) Fill(r, out->add_replicas());
    return grpc::Status::OK;
  }

 private:
  StatusService::GetStatus status_;
};

// The library writes its own format to stderr; its words belong in our log.
void LogFromGrpc(gpr_log_func_args* args) { spdlog::debug("grpc: {}", args->message); }

}  // namespace

struct StatusService::Impl {
  explicit Impl(GetStatus status) : rpc(std::move(status)) {}
  RouterRpc rpc;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

StatusService::StatusService(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<StatusService>> StatusService::Listen(const http::Origin& address,
                                                             GetStatus status) {
  gpr_set_log_function(LogFromGrpc);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  auto impl = std::make_unique<Impl>(std::move(status));
  grpc::ServerBuilder builder;
  // Without this, a second server on the same port would get half of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Streams that are opened and reset at once take memory until they are served: few at a time.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder.AddListeningPort(address.ToString(), grpc::InsecureServerCredentials(), &impl->port);
  builder.RegisterService(&impl->rpc);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || impl->port == 0) {
    return UnavailableError("listen on " + address.ToString() + ": in use, or not ours");
  }
  return std::unique_ptr<StatusService>(new StatusService(std::move(impl)));
}

StatusService::~StatusService() {
  impl_->server->Shutdown(std::chrono::system_clock::now() + seconds(1));
}

void StatusService::SetNotServing() {
  impl_->server->GetHealthCheckService()->SetServingStatus(false);
}

uint16_t StatusService::port() const { return static_cast<uint16_t>(impl_->port); }

}  // namespace ember::router
