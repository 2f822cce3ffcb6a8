// ember bench store: throughput and latency of a store as one client process sees it.
#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <thread>

#include "client/cli/bench_data.h"
#include "client/cli/child_process.h"
#include "client/cli/command.h"
#include "client/cli/store_bench.h"
#include "client/cli/store_suite.h"
#include "client/cli/text.h"

namespace ember::cli {
namespace {

struct BenchFlags {
  StoreFlags store;
  CLI::Option* stores_given = nullptr;
  std::vector<uint64_t> sizes = {64 << 10, 1 << 20};
  StoreBenchOptions options;
  double seconds = 5;
  bool json = false;
  bool suite = false;
  bool shm = false;
  StoreSuiteOptions suite_options;
  std::vector<std::string> only;
};

// Room for the working sets of all sizes, each of which is left behind, and for what a node keeps
// beside each payload.
uint64_t MemoryFor(const BenchFlags& flags) {
  if (flags.suite) return StoreSuite::NodeBytes(flags.suite_options);
  constexpr uint64_t kBesidePayload = 8 << 10;
  uint64_t memory = 64 << 20;
  for (uint64_t size : flags.sizes) {
    const uint64_t segments = flags.options.working_set_bytes / std::max<uint64_t>(size, 1);
    memory += flags.options.working_set_bytes + segments * kBesidePayload;
  }
  return memory;
}

// A store node of our own on a free loopback port.
Result<ChildProcess> StartPrivateNode(uint64_t memory, bool shm, std::string* address) {
  Result<std::string> folder = ProgramFolder();
  if (!folder.ok()) return folder.status();
  Result<io::Endpoint> endpoint = FreeLoopbackEndpoint();
  if (!endpoint.ok()) return endpoint.status();
  *address = endpoint->ToString();
  // Named after its port, so that private nodes share no sockets.
  return ChildProcess::Start(
      {*folder + "/ember-store", "--node-id=bench-" + std::to_string(endpoint->port),
       "--listen=" + *address, "--grpc=off", "--admin=off", "--log-level=off",
       "--memory=" + std::to_string(memory), shm ? "--shm=trusted" : "--shm=off"},
      /*quiet=*/true);
}

Status WaitUntilReachable(StoreClient& client, std::optional<ChildProcess>& node) {
  constexpr Duration kPatience = seconds(10);
  const TimePoint deadline = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    const auto nodes = client.Nodes();
    const auto up = std::ranges::count_if(nodes, &StoreClient::NodeState::reachable);
    if (up > 0) return OkStatus();
    if (node && node->Ended()) {
      return UnavailableError("the private ember-store ended: " + *node->Ended());
    }
    if (!node || std::chrono::steady_clock::now() > deadline) {
      return UnavailableError("no store node can be reached: " +
                              (nodes.empty() ? "" : nodes[0].last_error));
    }
    std::this_thread::sleep_for(milliseconds(20));
  }
}

std::string JsonLine(const BenchPhase& phase, const StoreBenchOptions& options) {
  JsonObject object;
  object.Add("benchmark", "store_" + phase.name)
      .Add("segment_bytes", options.segment_bytes)
      .Add("batch", uint64_t{options.batch})
      .Add("threads", uint64_t{options.threads})
      .Add("seconds", phase.seconds)
      .Add("calls", phase.calls)
      .Add("segments", phase.segments)
      .Add("segments_per_s", phase.SegmentsPerSecond())
      .Add("gb_per_s", phase.GigabytesPerSecond())
      .Add("p50_ms", phase.LatencyMs(0.5))
      .Add("p99_ms", phase.LatencyMs(0.99))
      .Add("max_ms", phase.LatencyMs(1))
      .Add("missed", phase.missed)
      .Add("wrong", phase.wrong);
  return object.ToString();
}

std::vector<std::string> TableRow(const BenchPhase& phase, uint64_t segment_bytes) {
  return {phase.name,
          ByteText(segment_bytes),
          CountText(phase.calls),
          CountText(static_cast<uint64_t>(phase.SegmentsPerSecond())),
          phase.name == "match" ? "-" : fmt::format("{:.2f}", phase.GigabytesPerSecond()),
          fmt::format("{:.3f}", phase.LatencyMs(0.5)),
          fmt::format("{:.3f}", phase.LatencyMs(0.99)),
          fmt::format("{:.3f}", phase.LatencyMs(1)),
          CountText(phase.missed),
          CountText(phase.wrong)};
}

Status RunBench(BenchFlags& flags, StoreClient& client, uint64_t* wrong) {
  TextTable table({"PHASE", "SEGMENT", "CALLS", "SEGMENTS/S", "GB/S", "P50 MS", "P99 MS", "MAX MS",
                   "MISSED", "WRONG"});
  for (uint64_t size : flags.sizes) {
    flags.options.segment_bytes = size;
    Result<StoreBench> bench = StoreBench::Make(client, flags.options);
    if (!bench.ok()) return bench.status();
    for (const BenchPhase& phase : bench->Run()) {
      *wrong += phase.wrong;
      table.Add(TableRow(phase, size));
      if (flags.json) std::printf("%s\n", JsonLine(phase, flags.options).c_str());
    }
  }
  if (!flags.json) std::printf("%s", table.ToString().c_str());
  return OkStatus();
}

Status RunSuite(BenchFlags& flags, StoreClient& client, pid_t node) {
  flags.suite_options.node = node;
  flags.suite_options.only = {flags.only.begin(), flags.only.end()};
  Result<std::vector<BenchFigure>> figures = StoreSuite(client, flags.suite_options).Run();
  if (!figures.ok()) return figures.status();
  PrintFigures(*figures, flags.json);
  return OkStatus();
}

int Bench(BenchFlags& flags) {
  flags.suite_options.shm = flags.shm;
  flags.options.duration =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(flags.seconds));
  flags.options.timeout = flags.store.timeout();
  const bool own_node = flags.stores_given->empty() && std::getenv(kStoresVariable) == nullptr;
  std::optional<ChildProcess> node;
  if (own_node) {
    Result<ChildProcess> started =
        StartPrivateNode(MemoryFor(flags), flags.shm, &flags.store.stores);
    if (!started.ok()) return Complain(started.status());
    node.emplace(*std::move(started));
  }
  Result<std::unique_ptr<StoreClient>> client = flags.store.Connect("ember-bench");
  if (!client.ok()) return Complain(client.status()), kWrongUsage;
  if (Status status = WaitUntilReachable(**client, node); !status.ok()) return Complain(status);
  if (!flags.json) {
    std::printf("%s, %u threads, %u segments a call\n",
                own_node ? "a private node on loopback" : flags.store.stores.c_str(),
                flags.options.threads, flags.options.batch);
  }
  if (flags.suite) {
    const Status status = RunSuite(flags, **client, node ? node->pid() : 0);
    return status.ok() ? kDone : Complain(status);
  }
  uint64_t wrong = 0;
  if (Status status = RunBench(flags, **client, &wrong); !status.ok()) {
    return Complain(status), kWrongUsage;
  }
  if (wrong > 0) return Complain(CorruptError(CountText(wrong) + " segments came back wrong"));
  return kDone;
}

}  // namespace

void AddBenchCommand(CLI::App* app, int* exit_code) {
  static BenchFlags flags;
  CLI::App* bench = app->add_subcommand("bench", "Measure");
  bench->require_subcommand(1);
  AddDiskBenchCommand(bench, exit_code);
  CLI::App* store = bench->add_subcommand("store", "Put, match and get against a store");
  store->footer(
      "Without --stores (or $EMBER_STORES) a private node is started on loopback and stopped "
      "again.\n"
      "Every loaded byte is compared with what was put. Bytes count once, whatever the copies.\n\n"
      "Examples:\n"
      "  ember bench store\n"
      "  ember bench store --sizes 256KiB,4MiB --batch 8 --threads 8 --seconds 10\n"
      "  ember bench store --stores 10.0.0.1:7101 --working-set 8GiB --json > figures.jsonl\n\n"
      "Exit codes: 0 done, 1 failed or wrong bytes, 2 wrong usage.");
  flags.store.AddTo(store);
  flags.stores_given = store->get_option("--stores");
  store->add_option("--sizes", flags.sizes, "Payloads of a segment, SIZE,...")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true).description(""))
      ->type_name("SIZE,...")
      ->default_str("64KiB,1MiB");
  store->add_option("--batch", flags.options.batch, "Segments a call")
      ->check(Within(1, 4096))
      ->capture_default_str();
  store->add_option("--threads", flags.options.threads, "Threads that call")
      ->check(Within(1, 256))
      ->capture_default_str();
  store->add_option("--seconds", flags.seconds, "How long to match and to get, each")
      ->check(Within(0.1, 3600.0))
      ->capture_default_str();
  store
      ->add_option("--working-set", flags.options.working_set_bytes,
                   "Payload to put of each size; should fit in the store")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true).description(""))
      ->type_name("SIZE")
      ->default_str("512MiB");
  store->add_flag("--shm", flags.shm,
                  "The private node shares its memory, and loads are read there (a node given by "
                  "--stores is asked as it is)");
  store->add_flag("--suite", flags.suite,
                  "The figures by which nodes are compared, one call at a time");
  store->add_option("--only", flags.only, "Of the suite, NAME,...")
      ->delimiter(',')
      ->type_name("NAME,...");
  store->add_option("--scale", flags.suite_options.scale, "Of the suite's work: below 1 is a trial")
      ->check(Within(0.01, 100.0))
      ->capture_default_str();
  store->add_flag("--json", flags.json, "A JSON object a line for each phase");
  store->callback([exit_code] { *exit_code = Bench(flags); });
}

}  // namespace ember::cli
