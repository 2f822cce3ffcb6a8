// ember up: the embedded default: one store and one router on loopback, as child processes.
#include <signal.h>

#include <cstdio>
#include <optional>

#include "client/cli/child_process.h"
#include "client/cli/command.h"
#include "client/cli/control_client.h"

namespace ember::cli {
namespace {

constexpr Duration kStartPatience = seconds(20);
constexpr Duration kStopGrace = seconds(12);  // the router's own is 10 s

// The programs' own defaults, which the other commands use too.
constexpr char kStoreListen[] = "127.0.0.1:7101";
constexpr char kStoreGrpc[] = "127.0.0.1:7201";
constexpr char kRouterGrpc[] = "127.0.0.1:8081";

struct UpFlags {
  std::string memory = "512MiB";
  std::vector<std::string> replicas;
  std::string policy = "cache_aware";
  std::string store_listen = kStoreListen;
  std::string store_grpc = kStoreGrpc;
  std::string store_admin = "127.0.0.1:7301";
  std::string router_listen = "127.0.0.1:8080";
  std::string router_grpc = kRouterGrpc;
};

// " --flag=value", or nothing when the flag's default is that already.
std::string FlagText(const char* flag, const std::string& value, const char* fallback) {
  return value == fallback ? "" : std::string(" ") + flag + "=" + value;
}

// The signals that `ember up` waits for; blocked before any thread starts, so that all of them
// inherit that.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  // The next one within `time`, or 0.
  int Wait(Duration time) const {
    const auto whole = std::chrono::duration_cast<seconds>(time);
    const timespec timeout{whole.count(), (time - whole).count()};
    const int signal = sigtimedwait(&set_, nullptr, &timeout);
    return signal > 0 ? signal : 0;
  }

 private:
  sigset_t set_;
};

class Pair {
 public:
  explicit Pair(const UpFlags& flags) : flags_(flags) {}

  int Run() {
    if (Status status = Start(); !status.ok()) return Complain(status);
    std::optional<int> code = WaitUntilReady();
    if (!code) {
      PrintHowTo();
      code = WaitForEnd();
    }
    StopAll();
    return *code;
  }

 private:
  Status Start() {
    Result<std::string> folder = ProgramFolder();
    if (!folder.ok()) return folder.status();
    std::vector<std::string> store = {
        *folder + "/ember-store",          "--node-id=s1",
        "--listen=" + flags_.store_listen, "--grpc=" + flags_.store_grpc,
        "--admin=" + flags_.store_admin,   "--memory=" + flags_.memory};
    std::vector<std::string> router = {
        *folder + "/ember-router", "--listen=" + flags_.router_listen,
        "--grpc=" + flags_.router_grpc, "--policy=" + flags_.policy, "--drain-delay-ms=0"};
    for (const std::string& replica : flags_.replicas) router.push_back("--replica=" + replica);
    for (std::vector<std::string>* command : {&store, &router}) {
      Result<ChildProcess> child = ChildProcess::Start(*std::move(command));
      if (!child.ok()) return child.status();
      children_.push_back(*std::move(child));
    }
    return OkStatus();
  }

  // An exit code when it came to nothing.
  std::optional<int> WaitUntilReady() {
    const TimePoint deadline = std::chrono::steady_clock::now() + kStartPatience;
    for (;;) {
      if (Answers(&FetchStoreStatus, flags_.store_grpc) &&
          Answers(&FetchRouterStatus, flags_.router_grpc)) {
        return Look(Duration::zero());  // or was it somebody else's, and ours could not start?
      }
      if (std::optional<int> code = Look(milliseconds(50))) return code;
      if (std::chrono::steady_clock::now() > deadline) {
        return Complain(DeadlineError("store and router are not ready after 20 s"));
      }
    }
  }

  template <typename Fetch>
  static bool Answers(Fetch fetch, const std::string& address) {
    Result<io::Endpoint> endpoint = io::Endpoint::Parse(address);
    return endpoint.ok() && fetch(*endpoint, milliseconds(500)).ok();
  }

  int WaitForEnd() {
    for (;;) {
      if (std::optional<int> code = Look(seconds(3600))) return *code;
    }
  }

  // What happened within `time`, as an exit code; nullopt when nothing that ends us.
  std::optional<int> Look(Duration time) {
    const int signal = signals_.Wait(time);
    for (ChildProcess& child : children_) {
      if (std::optional<std::string> how = child.Ended()) {
        return Complain(UnavailableError(child.name() + " ended by itself: " + *how));
      }
    }
    if (signal == 0 || signal == SIGCHLD) return std::nullopt;
    std::fprintf(stderr, "\nember: stopping\n");
    return kDone;
  }

  // The router first: it may still be answering requests that need the store.
  void StopAll() {
    while (!children_.empty()) {
      ChildProcess& child = children_.back();
      const bool by_itself = child.Ended().has_value();
      const std::string how = child.Stop(kStopGrace);
      if (!by_itself)
        std::fprintf(stderr, "ember: %s stopped, %s\n", child.name().c_str(), how.c_str());
      children_.pop_back();
    }
  }

  void PrintHowTo() const {
    std::printf(
        "EmberKV is up on loopback.\n\n"
        "  chat     http://%s/v1/chat/completions   OpenAI API, %zu replicas\n"
        "  page     http://%s/ui   what the router does, as it happens\n"
        "  store    %s   for agents: --stores=%s\n"
        "  metrics  http://%s/metrics\n\n"
        "Try:  ember status%s%s\n"
        "      ember put FILE --name N%s\n"
        "%s"
        "Ctrl-C stops both.\n",
        flags_.router_listen.c_str(), flags_.replicas.size(), flags_.router_listen.c_str(),
        flags_.store_listen.c_str(), flags_.store_listen.c_str(), flags_.store_admin.c_str(),
        FlagText("--store-grpc", flags_.store_grpc, kStoreGrpc).c_str(),
        FlagText("--router-grpc", flags_.router_grpc, kRouterGrpc).c_str(),
        FlagText("--stores", flags_.store_listen, kStoreListen).c_str(),
        flags_.replicas.empty()
            ? "No replica yet: add --replica=NAME,http=HOST:PORT,grpc=HOST:PORT for each agent.\n"
            : "");
    std::fflush(stdout);
  }

  const UpFlags& flags_;
  const Signals signals_;
  std::vector<ChildProcess> children_;  // in the order of their start
};

}  // namespace

void AddUpCommand(CLI::App* app, int* exit_code) {
  static UpFlags flags;
  CLI::App* up = app->add_subcommand("up", "Run one store and one router on this machine");
  up->footer(
      "Starts ember-store and ember-router from this program's folder and stays with them: Ctrl-C "
      "stops\n"
      "both, and when one of them dies the other is stopped and the exit code is 1. Nothing "
      "listens\n"
      "outside loopback unless an address here says so.\n\n"
      "Examples:\n"
      "  ember up\n"
      "  ember up --memory 4GiB --replica r1,http=127.0.0.1:9001,grpc=127.0.0.1:9101\n\n"
      "Exit codes: 0 stopped by Ctrl-C or SIGTERM, 1 a process failed, 2 wrong usage.");
  up->add_option("--memory", flags.memory, "The store's memory")->capture_default_str();
  up->add_option("--replica", flags.replicas,
                 "A replica for the router, NAME,http=HOST:PORT,grpc=HOST:PORT; may be repeated")
      ->allow_extra_args(false)
      ->expected(1)
      ->take_all();
  up->add_option("--policy", flags.policy, "The router's default policy")->capture_default_str();
  up->add_option("--listen", flags.router_listen, "The router's HTTP address")
      ->capture_default_str();
  up->add_option("--router-grpc", flags.router_grpc, "The router's control address")
      ->capture_default_str();
  up->add_option("--store-listen", flags.store_listen, "The store's data address")
      ->capture_default_str();
  up->add_option("--store-grpc", flags.store_grpc, "The store's control address")
      ->capture_default_str();
  up->add_option("--store-admin", flags.store_admin, "The store's metrics address")
      ->capture_default_str();
  up->callback([exit_code] { *exit_code = Pair(flags).Run(); });
}

}  // namespace ember::cli
