// ember-router: reads the command line, starts the service and its gRPC sides, waits for a signal.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "client/http/watchdog.h"
#include "router/config.h"
#include "router/fleet/agent_watchers.h"
#include "router/status_service.h"
#include "router/stores/store_watcher.h"
#include "router/tokenize/grpc_agent_client.h"

namespace ember::router {
namespace {

int Fail(int code, const Status& why, const char* hint = "") {
  const std::string message(why.message());
  std::fprintf(stderr, "ember-router: %s%s\n", message.substr(0, message.find('\n')).c_str(), hint);
  return code;
}

void SetUpLog(const std::string& level) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("ember-router"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
  spdlog::set_level(spdlog::level::from_str(level));
}

// To stop, or to read files again. Blocked before any thread starts, so that only main's sigwait
// gets them.
sigset_t BlockSignals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGUSR2, SIG_IGN);  // means nothing here, and must not end us
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// Each client may need two, so as many as this process may have.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Until the signal that ends the process, which it returns, or for `at_most`, which is 0.
int AwaitEnd(const sigset_t& signals, Duration at_most, Service& service) {
  const TimePoint until = http::After(at_most);
  for (;;) {
    const Duration left = std::max(until - SteadyClock().Now(), Duration::zero());
    const timespec wait{.tv_sec = left / seconds(1), .tv_nsec = (left % seconds(1)).count()};
    const int signal = sigtimedwait(&signals, nullptr, &wait);
    if (signal == SIGHUP) {
      service.Reload();
    } else if (signal == SIGUSR1) {
      service.ReopenLog();
    } else if (signal > 0 || (errno == EAGAIN && left == Duration::zero())) {
      return std::max(signal, 0);
    }
  }
}

// Balancers need a moment to notice that others are to be asked.
void LeadOut(const sigset_t& signals, Duration delay, Service& service) {
  spdlog::info("SIGTERM: /health says 503, and new requests are taken for {} ms more",
               delay / milliseconds(1));
  service.AnnounceDrain();
  AwaitEnd(signals, delay, service);
}

int Run(const Config& config) {
  const sigset_t signals = BlockSignals();
  RaiseDescriptorLimit();
  SetUpLog(config.log_level);
  auto agents = std::make_unique<GrpcAgentClient>();
  Service service(config.service, *agents);
  auto watchers = std::make_unique<AgentWatchers>(service.loop(), service.feed());
  service.AddListener(agents.get());
  service.AddListener(watchers.get());
  // Listeners go before the service does, also where it did not start.
  const auto give_up = [&](const Status& why) {
    service.Drain(Duration::zero());
    return Fail(1, why);
  };
  if (const Status started = service.Start(); !started.ok()) return give_up(started);
  std::unique_ptr<StatusService> status;
  if (config.grpc) {
    auto listening = StatusService::Listen(*config.grpc, [&] { return service.GetStatus(); });
    if (!listening.ok()) return give_up(listening.status().WithContext("--grpc"));
    status = *std::move(listening);
  }
  std::vector<std::unique_ptr<StoreWatcher>> stores;
  for (const std::string& address : config.service.stores) {
    stores.push_back(std::make_unique<StoreWatcher>(
        service.loop(), service.store_feed(), static_cast<StoreNumber>(stores.size()), address));
  }
  http::Origin http{config.service.server.host, service.port()};
  http::Origin grpc = config.grpc.value_or(http::Origin{});
  if (status != nullptr) grpc.port = status->port();
  std::string admin;
  if (service.admin_port() != 0) {
    admin = " admin=" +
            http::Origin{config.service.admin.listen->host, service.admin_port()}.ToString();
  }
  const Result<StatusReport> joined = service.GetStatus();
  std::fprintf(stderr, "ready http=%s grpc=%s policy=%s replicas=%zu%s\n", http.ToString().c_str(),
               status != nullptr ? grpc.ToString().c_str() : "off",
               std::string(config.service.router.default_policy->name()).c_str(),
               joined.ok() ? joined->replicas.size() : 0, admin.c_str());

  const int signal = AwaitEnd(signals, Duration::max(), service);
  if (status != nullptr) status->SetNotServing();
  if (signal == SIGTERM && config.drain_delay > Duration::zero()) {
    LeadOut(signals, config.drain_delay, service);
  }
  spdlog::info("stopping on {}", signal == SIGINT ? "SIGINT" : "SIGTERM");
  service.Drain(config.grace);
  // What speaks to the loop goes before it.
  status.reset();
  stores.clear();
  watchers.reset();
  agents.reset();
  service.Stop(Duration::zero());
  spdlog::info("stopped");
  return 0;
}

}  // namespace
}  // namespace ember::router

int main(int argc, char** argv) {
  using ember::router::Config;
  const auto config = Config::FromCommandLine(argc, argv);
  if (!config.ok()) return ember::router::Fail(2, config.status(), " (see --help)");
  if (!config->has_value()) return 0;
  return ember::router::Run(**config);
}
