// ember-agent: the sidecar of one llama-server.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <csignal>
#include <iostream>

#include "client/agent/agent.h"
#include "client/agent/agent_service.h"
#include "client/agent/config.h"

namespace ember::agent {
namespace {
int Fail(int code, const Status& status) {
  std::cerr << "ember-agent: " << status.message() << "\n";
  return code;
}

std::string At(http::Origin address, uint16_t port) {
  address.port = port;
  return address.ToString();
}

int Run(const Config& config) {
  // Every thread started from here on inherits the mask; only this one waits for the signals.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  Result<std::unique_ptr<Agent>> agent = Agent::Start(config);
  if (!agent.ok()) return Fail(1, agent.status());
  auto grpc = AgentServer::Listen(config.grpc, config.replica_id, **agent);
  if (!grpc.ok()) return Fail(1, grpc.status());
  const std::string addresses =
      fmt::format("replica={} http={} grpc={} engine={} stores={}", config.replica_id,
                  At(config.listen, (*agent)->port()), At(config.grpc, (*grpc)->port()),
                  config.engine.ToString(), config.stores.size());
  spdlog::info("listening {}", addresses);
  (*agent)->OnReady([addresses](const std::string& cache) {
    spdlog::info("ready {} cache={}", addresses, cache);
  });
  int signal = 0;
  sigwait(&signals, &signal);
  spdlog::info("stopping on {}", signal == SIGINT ? "SIGINT" : "SIGTERM");
  grpc->reset();
  (*agent)->Stop();
  return 0;
}
}  // namespace
}  // namespace ember::agent

int main(int argc, char** argv) {
  using ember::agent::Config;
  auto config = Config::FromCommandLine(argc, argv);
  if (!config.ok()) return ember::agent::Fail(2, config.status());
  if (!config->has_value()) return 0;
  spdlog::set_default_logger(spdlog::stderr_color_mt("agent"));
  spdlog::set_level(spdlog::level::from_str((*config)->log_level));
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  return ember::agent::Run(**config);
}
