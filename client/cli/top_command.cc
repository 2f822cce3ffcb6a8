// ember top: what the nodes do, each second.
#include <fmt/format.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "client/cli/command.h"
#include "client/cli/control_client.h"
#include "client/cli/top_view.h"

namespace ember::cli {
namespace {

constexpr char kClear[] = "\033[H\033[J";
constexpr char kHideCursor[] = "\033[?25l";
constexpr char kShowCursor[] = "\033[?25h";

struct TopFlags {
  std::string stores = EnvironmentOr(kStoreGrpcVariable, "127.0.0.1:7201");
  double interval_seconds = 1;
  double timeout_seconds = 2;
  bool once = false;
  bool json = false;
};

volatile std::sig_atomic_t interrupted = 0;

void OnSignal(int) { interrupted = 1; }

// While it lives a key is read without Enter, and Ctrl-C ends us in order.
class Terminal {
 public:
  explicit Terminal(bool screen) : screen_(screen), keys_(::isatty(STDIN_FILENO) == 1) {
    struct sigaction action {};
    action.sa_handler = OnSignal;
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
    keys_ = keys_ && ::tcgetattr(STDIN_FILENO, &before_) == 0;
    if (keys_) {
      termios raw = before_;
      raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    if (screen_) std::printf("%s", kHideCursor);
  }
  ~Terminal() {
    if (screen_) std::printf("%s", kShowCursor);
    std::fflush(stdout);
    if (keys_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Terminal(const Terminal&) = delete;

  // Waits; false when the user wants to end.
  bool Wait(Duration duration) {
    const TimePoint end = std::chrono::steady_clock::now() + duration;
    while (interrupted == 0) {
      const auto left =
          std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now()).count();
      if (left <= 0) return true;
      pollfd input{.fd = keys_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
      if (::poll(&input, 1, static_cast<int>(left)) <= 0) continue;
      char key = 0;
      if (::read(STDIN_FILENO, &key, 1) <= 0) keys_ = false;
      if (key == 'q' || key == 'Q') return false;
    }
    return false;
  }

 private:
  const bool screen_;
  bool keys_;
  termios before_{};
};

Duration SecondsOf(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

ShardSample SampleOf(const rpc::StoreShard& s) {
  return {.memory_used = s.memory_used_bytes(),
          .memory_capacity = s.memory_capacity_bytes(),
          .disk_used = s.disk_used_bytes(),
          .disk_capacity = s.disk_capacity_bytes(),
          .disk_degraded = s.disk_degraded(),
          .segments = s.segments(),
          .disk_segments = s.disk_segments(),
          .hits = s.hits(),
          .misses = s.misses(),
          .evictions = s.evictions(),
          .corruptions = s.corruptions(),
          .bytes_in = s.bytes_in(),
          .bytes_out = s.bytes_out(),
          .leases = s.leases(),
          .puts_open = s.puts_open(),
          .connections = s.connections(),
          .get_bounds = {s.gets().bounds().begin(), s.gets().bounds().end()},
          .get_buckets = {s.gets().counts().begin(), s.gets().counts().end()}};
}

std::vector<NodeSample> Sample(const std::vector<io::Endpoint>& addresses, Duration timeout) {
  const auto statuses = FetchStoreStatuses(addresses, timeout);
  std::vector<NodeSample> samples;
  for (size_t i = 0; i < addresses.size(); ++i) {
    NodeSample node{.address = addresses[i].ToString(),
                    .status = statuses[i].status(),
                    .node_id = {},
                    .at = std::chrono::steady_clock::now(),
                    .shards = {}};
    if (statuses[i].ok()) {
      node.node_id = statuses[i]->node_id();
      node.incarnation = statuses[i]->incarnation();
      for (const rpc::StoreShard& shard : statuses[i]->shards()) {
        node.shards.push_back(SampleOf(shard));
      }
    }
    samples.push_back(std::move(node));
  }
  return samples;
}

int ShowTop(const TopFlags& flags) {
  Result<std::vector<io::Endpoint>> addresses = ParseEndpoints(flags.stores);
  if (!addresses.ok()) return Complain(addresses.status().WithContext("--store-grpc")), kWrongUsage;
  const bool screen = !flags.once && !flags.json && ::isatty(STDOUT_FILENO);
  Terminal terminal(screen);
  std::vector<NodeSample> before = Sample(*addresses, SecondsOf(flags.timeout_seconds));
  for (;;) {
    const bool go_on = terminal.Wait(SecondsOf(flags.interval_seconds));
    std::vector<NodeSample> now = Sample(*addresses, SecondsOf(flags.timeout_seconds));
    if (flags.json) {
      std::printf("%s\n", TopJson(before, now).c_str());
    } else {
      std::printf("%s%s%s", screen ? kClear : "", TopTable(before, now).c_str(),
                  screen ? "\nq ends\n" : "");
    }
    // A pipe whose reader has gone ends us.
    if (std::fflush(stdout) != 0) return kFailed;
    before = std::move(now);
    if (flags.once || !go_on) break;
  }
  const bool all = std::ranges::all_of(before, [](const auto& node) { return node.status.ok(); });
  return all ? kDone : kFailed;
}

}  // namespace

void AddTopCommand(CLI::App* app, int* exit_code) {
  static TopFlags flags;
  CLI::App* top = app->add_subcommand("top", "Watch what the nodes do: hits, bytes, fill, latency");
  top->footer(
      "A row a shard. Rates are of the last interval; GET P99 is the upper bound of the "
      "histogram's "
      "bucket,\n"
      "as the node measures a request (message received to last byte taken). q or Ctrl-C ends.\n\n"
      "Examples:\n"
      "  ember top\n"
      "  ember top --store-grpc 10.0.0.1:7201,10.0.0.2:7201\n"
      "  ember top --once --json | jq .nodes[].shards[].hit_ratio\n\n"
      "Exit codes: 0 all reachable, 1 something is not, 2 wrong usage.");
  top->add_option("--store-grpc", flags.stores,
                  "Control addresses of the nodes, HOST:PORT,... (or $EMBER_STORE_GRPC)")
      ->capture_default_str();
  top->add_option("--interval", flags.interval_seconds, "Seconds between two looks")
      ->check(Within(0.05, 3600.0))
      ->capture_default_str();
  top->add_option("--timeout", flags.timeout_seconds, "Seconds to wait for each node")
      ->check(Within(0.01, 60.0))
      ->capture_default_str();
  top->add_flag("--once", flags.once, "One interval, then end");
  top->add_flag("--json", flags.json, "One JSON object a line");
  top->callback([exit_code] { *exit_code = ShowTop(flags); });
}

}  // namespace ember::cli
