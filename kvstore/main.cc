// ember-store: reads the command line, starts the node and its control plane, waits for a signal.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <sys/resource.h>

#include <csignal>
#include <cstdio>

#include "kvstore/disk/rocks_catalog.h"
#include "kvstore/node.h"
#include "kvstore/server/admin_http.h"
#include "kvstore/server/control_service.h"

namespace ember::kv {
namespace {

constexpr Duration kGrace = seconds(2);
constexpr Duration kFlushGrace = seconds(20);  // less than what supervisors wait before they kill

int Fail(const Status& why) {
  std::fprintf(stderr, "ember-store: %s\n", std::string(why.message()).c_str());
  return 1;
}

void SetUpLog(const std::string& level) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("ember-store"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
  spdlog::set_level(spdlog::level::from_str(level));
}

// Blocked before any thread starts, so that only main's sigwait gets them.
sigset_t BlockStopSignals() {
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

Result<std::unique_ptr<Catalog>> OpenCatalog(const std::string& folder, std::string* lost) {
  Result<std::unique_ptr<RocksCatalog>> catalog = RocksCatalog::Open(folder, lost);
  if (!catalog.ok()) return catalog.status();
  return std::unique_ptr<Catalog>(*std::move(catalog));
}

// Every region file of the disk tier stays open, and every client is a descriptor.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

std::string Address(const std::optional<io::Endpoint>& asked, uint16_t port) {
  return asked ? io::Endpoint{asked->host, port}.ToString() : "off";
}

int Run(const NodeConfig& config) {
  const sigset_t signals = BlockStopSignals();
  SetUpLog(config.log_level);
  RaiseDescriptorLimit();
  Result<std::unique_ptr<Node>> started = Node::Start(config, OpenCatalog);
  if (!started.ok()) return Fail(started.status());
  Node& node = **started;
  if (!node.io_fallback().empty()) {
    spdlog::warn("io_uring refused, running on epoll reason=\"{}\"", node.io_fallback());
  }

  std::unique_ptr<ControlService> control;
  if (config.grpc) {
    auto service = ControlService::Start(
        *config.grpc, {.status = [&node](Duration timeout) { return node.GetStatus(timeout); },
                       .shards = node.doors(),
                       .metrics = &node.metrics()});
    if (!service.ok()) return Fail(service.status().WithContext("--grpc"));
    control = *std::move(service);
  }
  std::unique_ptr<AdminHttp> admin;
  if (config.admin) {
    auto http = AdminHttp::Start(*config.admin, &node.metrics(), [&node] { return node.alive(); });
    if (!http.ok()) return Fail(http.status().WithContext("--admin"));
    admin = *std::move(http);
  }
  std::fprintf(stderr, "ready node=%s data=%s grpc=%s admin=%s io=%s\n", config.node_id.c_str(),
               node.data_address().c_str(),
               Address(config.grpc, control ? control->port() : 0).c_str(),
               Address(config.admin, admin ? admin->port() : 0).c_str(),
               std::string(node.io_backend()).c_str());

  int signal = 0;
  sigwait(&signals, &signal);
  spdlog::info("stopping signal={}", signal);
  if (control) {
    control->SetServing(false);
    control->Stop(kGrace);  // it uses the shards
  }
  node.Stop(kGrace, kFlushGrace);
  spdlog::info("stopped");
  return 0;
}

}  // namespace
}  // namespace ember::kv

int main(int argc, char** argv) {
  const ember::kv::ParsedConfig parsed = ember::kv::ParseConfig(argc, argv);
  if (parsed.config) return ember::kv::Run(*parsed.config);
  std::fprintf(parsed.exit_code == 0 ? stdout : stderr, "%s\n", parsed.output.c_str());
  return parsed.exit_code;
}
