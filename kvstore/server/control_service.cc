#include "kvstore/server/control_service.h"

#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <spdlog/spdlog.h>

#include "kvstore/server/store_control.h"
#include "kvstore/server/store_data.h"

namespace ember::kv {
namespace {

constexpr const char* kServiceNames[] = {"", "ember.rpc.StoreControl", "ember.rpc.StoreData"};
constexpr int kMaxMessageBytes = 2 << 20;  // a chunk of 1 MiB, or a batch of names
constexpr int kMaxThreads = 96;            // feed readers, data calls, and then some
constexpr int kMaxStreams = 256;           // of a connection, at a time
constexpr int kKeepaliveMs = 20'000;       // a peer that answers no ping for so long is gone
constexpr int kClientPingMs = 5'000;       // how often clients may ping

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
  explicit Impl(ControlSources sources)
      : metrics(sources.metrics), control(sources, &metrics), data(sources.shards, &metrics) {}
  ControlMetrics metrics;
  StoreControl control;
  StoreData data;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

Result<std::unique_ptr<ControlService>> ControlService::Start(const io::Endpoint& endpoint,
                                                              ControlSources sources) {
  gpr_set_log_function(LogFromGrpcAtStart);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  auto impl = std::make_unique<Impl>(std::move(sources));
  grpc::ServerBuilder builder;
  // Without this, a second server on the same port would get half of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs / 2);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kClientPingMs);
  // Streams that are opened and reset at once take memory until they are served: few at a time.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  grpc::ResourceQuota quota("ember-store");
  quota.SetMaxThreads(kMaxThreads);
  builder.SetResourceQuota(quota);
  builder.AddListeningPort(endpoint.ToString(), grpc::InsecureServerCredentials(), &impl->port);
  builder.RegisterService(&impl->control);
  builder.RegisterService(&impl->data);
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
  for (const char* name : kServiceNames) health->SetServingStatus(name, serving);
}

void ControlService::Stop(Duration grace) {
  impl_->control.Stop();
  impl_->server->Shutdown(std::chrono::system_clock::now() +
                          std::chrono::duration_cast<std::chrono::microseconds>(grace));
  impl_->server->Wait();
}

}  // namespace ember::kv
