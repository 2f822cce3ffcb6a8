#include "kvstore/server/control_service.h"

#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <spdlog/spdlog.h>

#include "proto/rpc/store.grpc.pb.h"

namespace ember::kv {
namespace {

constexpr Duration kStatusTimeout = seconds(1);
constexpr char kServiceName[] = "ember.rpc.StoreControl";

grpc::StatusCode GrpcCode(StatusCode code) {
  return code == StatusCode::kDeadline ? grpc::StatusCode::DEADLINE_EXCEEDED
                                       : grpc::StatusCode::UNAVAILABLE;
}

void ToProto(const NodeStatus& status, rpc::StoreStatus* out) {
  out->set_node_id(status.node_id);
  out->set_incarnation(status.incarnation);
  out->set_version(EMBER_VERSION);
  out->set_uptime_seconds(status.uptime_seconds);
  out->set_data_address(status.data_address);
  out->set_io_backend(status.io_backend);
  out->set_memory_capacity_bytes(status.total.memory_capacity_bytes);
  out->set_memory_used_bytes(status.total.memory_used_bytes);
  out->set_segments(status.total.segments);
  out->set_hits(status.total.hits);
  out->set_misses(status.total.misses);
  out->set_evictions(status.total.evictions);
  out->set_corruptions(status.total.corruptions);
  out->set_connections(status.total.connections);
  out->set_bytes_in(status.total.bytes_in);
  out->set_bytes_out(status.total.bytes_out);
  out->set_view_number(status.view_number);
  for (const wire::Member& member : status.members) {
    rpc::StoreMember* proto = out->add_members();
    proto->set_id(member.id);
    proto->set_address(io::Endpoint{member.host, member.port}.ToString());
  }
}

class StoreControl final : public rpc::StoreControl::Service {
 public:
  explicit StoreControl(ControlService::StatusSource source) : source_(std::move(source)) {}

  grpc::Status GetStatus(grpc::ServerContext*, const rpc::GetStoreStatusRequest*,
                         rpc::StoreStatus* reply) override {
    Result<NodeStatus> status = source_(kStatusTimeout);
    if (!status.ok()) {
      return {GrpcCode(status.status().code()), std::string(status.status().message())};
    }
    ToProto(*status, reply);
    return grpc::Status::OK;
  }

 private:
  const ControlService::StatusSource source_;
};

// The library writes its own format to stderr; its words belong in our log.
void LogFromGrpc(gpr_log_func_args* args) {
  const bool error = args->severity == GPR_LOG_SEVERITY_ERROR;
  spdlog::log(error ? spdlog::level::warn : spdlog::level::debug, "grpc message=\"{}\"",
              args->message);
}
// While it starts: a port in use is reported by us, in one line.
void LogFromGrpcAtStart(gpr_log_func_args* args) {
  spdlog::debug("grpc message=\"{}\"", args->message);
}

}  // namespace

struct ControlService::Impl {
  explicit Impl(StatusSource status) : control(std::move(status)) {}
  StoreControl control;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

Result<std::unique_ptr<ControlService>> ControlService::Start(const io::Endpoint& endpoint,
                                                              StatusSource status) {
  gpr_set_log_function(LogFromGrpcAtStart);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  auto impl = std::make_unique<Impl>(std::move(status));
  grpc::ServerBuilder builder;
  // Without this, a second server on the same port would get half of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(64 << 10);
  builder.AddListeningPort(endpoint.ToString(), grpc::InsecureServerCredentials(), &impl->port);
  builder.RegisterService(&impl->control);
  impl->server = builder.BuildAndStart();
  gpr_set_log_function(LogFromGrpc);
  if (impl->server == nullptr || impl->port == 0) {
    return UnavailableError("listen on " + endpoint.ToString() + ": address in use or not ours");
  }
  std::unique_ptr<ControlService> service(new ControlService(std::move(impl)));
  service->SetServing(true);
  return service;
}

ControlService::ControlService(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ControlService::~ControlService() { Stop(Duration::zero()); }

uint16_t ControlService::port() const { return static_cast<uint16_t>(impl_->port); }

void ControlService::SetServing(bool serving) {
  auto* health = impl_->server->GetHealthCheckService();
  health->SetServingStatus("", serving);
  health->SetServingStatus(kServiceName, serving);
}

void ControlService::Stop(Duration grace) {
  impl_->server->Shutdown(std::chrono::system_clock::now() +
                          std::chrono::duration_cast<std::chrono::microseconds>(grace));
  impl_->server->Wait();
}

}  // namespace ember::kv
