// ember watch: what nodes hold, as it changes, as JSON lines.
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <set>

#include "client/cli/command.h"
#include "client/cli/text.h"
#include "client/feed/feed_reader.h"

namespace ember::cli {
namespace {

struct WatchFlags {
  std::string stores = EnvironmentOr(kStoreGrpcVariable, "127.0.0.1:7201");
  bool snapshot = false;
  double timeout_seconds = 10;
};

std::string HexOf(const GenerationId& generation) {
  Bytes bytes;
  ByteWriter writer(&bytes);
  writer.Put(generation.high);
  writer.Put(generation.low);
  return ToHex(bytes);
}

// Prints the events of one node, and knows when its snapshot is whole.
class Printer final : public FeedListener {
 public:
  Printer(std::string node, bool snapshot_only)
      : node_(std::move(node)), snapshot_only_(snapshot_only) {}

  void OnSnapshot(uint32_t shard, uint32_t shard_count) override {
    const std::lock_guard lock(mutex_);
    shard_count_ = shard_count;
    current_.erase(shard);
    if (!snapshot_only_) Print(Line("snapshot", shard).Add("shards", uint64_t{shard_count}));
  }
  void OnStored(uint32_t shard, const FeedItem& item) override {
    PrintItem("stored", shard, item, "");
  }
  void OnRemoved(uint32_t shard, const FeedItem& item, std::string_view reason) override {
    if (!snapshot_only_) PrintItem("removed", shard, item, reason);
  }
  void OnPurged(uint32_t shard, const PurgeScope& scope, uint64_t epoch) override {
    if (snapshot_only_) return;
    JsonObject line = Line("purged", shard);
    switch (scope.kind) {
      case PurgeScope::Kind::kEverything:
        line.Add("scope", "everything");
        break;
      case PurgeScope::Kind::kNamespace:
        line.Add("scope", "namespace").Add("namespace", ToHex(scope.ns.bytes));
        break;
      case PurgeScope::Kind::kTenant:
        line.Add("scope", "tenant").Add("tenant_hash", uint64_t{scope.tenant_hash});
        break;
    }
    Print(line.Add("epoch", epoch));
  }
  void OnCurrent(uint32_t shard) override {
    const std::lock_guard lock(mutex_);
    current_.insert(shard);
    changed_.notify_all();
    if (!snapshot_only_) Print(Line("current", shard));
  }
  void OnLost(const Status& why) override {
    const std::lock_guard lock(mutex_);
    last_error_ = why;
    if (!snapshot_only_) {
      JsonObject line;
      Print(line.Add("node", node_).Add("event", "lost").Add("reason", why.ToString()));
    }
  }

  // False when its snapshot was not whole in time.
  bool WaitForSnapshot(TimePoint deadline) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(
        lock, deadline, [this] { return shard_count_ > 0 && current_.size() >= shard_count_; });
  }
  Status last_error() const {
    const std::lock_guard lock(mutex_);
    return last_error_;
  }

 private:
  JsonObject Line(const char* event, uint32_t shard) const {
    JsonObject line;
    line.Add("node", node_).Add("event", event).Add("shard", uint64_t{shard});
    return line;
  }
  void PrintItem(const char* event, uint32_t shard, const FeedItem& item, std::string_view reason) {
    JsonObject line = Line(event, shard);
    line.Add("key", item.key.ToString())
        .Add("tier", TierName(item.tier))
        .Add("generation", HexOf(item.generation));
    if (!reason.empty()) line.Add("reason", reason);
    Print(line);
  }
  static void Print(const JsonObject& line) { std::printf("%s\n", line.ToString().c_str()); }

  const std::string node_;
  const bool snapshot_only_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t shard_count_ = 0;
  std::set<uint32_t> current_;
  Status last_error_;
};

int Watch(const WatchFlags& flags) {
  Result<std::vector<io::Endpoint>> addresses = ParseEndpoints(flags.stores);
  if (!addresses.ok()) return Complain(addresses.status().WithContext("--store-grpc")), kWrongUsage;
  std::setvbuf(stdout, nullptr, flags.snapshot ? _IOFBF : _IOLBF, 1 << 16);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  if (!flags.snapshot) pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::vector<std::unique_ptr<Printer>> printers;
  std::vector<std::unique_ptr<FeedReader>> readers;
  for (const io::Endpoint& address : *addresses) {
    printers.push_back(std::make_unique<Printer>(address.ToString(), flags.snapshot));
    readers.push_back(std::make_unique<FeedReader>(address.ToString(), *printers.back()));
  }
  int exit_code = kDone;
  if (flags.snapshot) {
    const TimePoint deadline =
        std::chrono::steady_clock::now() +
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(flags.timeout_seconds));
    for (size_t i = 0; i < printers.size(); ++i) {
      if (printers[i]->WaitForSnapshot(deadline)) continue;
      const Status why = printers[i]->last_error();
      exit_code = Complain(
          UnavailableError((*addresses)[i].ToString() + ": " +
                           (why.ok() ? "no snapshot in time" : std::string(why.message()))));
    }
  } else {
    int signal = 0;
    sigwait(&signals, &signal);
  }
  readers.clear();
  return exit_code;
}

}  // namespace

void AddWatchCommand(CLI::App* app, int* exit_code) {
  static WatchFlags flags;
  CLI::App* watch = app->add_subcommand("watch", "Print what nodes hold, as it changes");
  watch->footer(
      "JSON lines: for each shard a snapshot (\"snapshot\", then \"stored\" lines, then "
      "\"current\"), then every\n"
      "change: stored, removed with its reason, purged. \"lost\": the node is not heard; it is "
      "asked again.\n"
      "The last line about a key and tier holds. Ctrl-C ends.\n\n"
      "Examples:\n"
      "  ember watch | jq -c 'select(.event==\"removed\")'\n"
      "  ember watch --snapshot | wc -l             how many segments there are, by tier\n\n"
      "Exit codes: 0 ended, 1 no snapshot in time, 2 wrong usage.");
  watch
      ->add_option("--store-grpc", flags.stores,
                   "Control addresses of the nodes, HOST:PORT,... (or $EMBER_STORE_GRPC)")
      ->capture_default_str();
  watch->add_flag("--snapshot", flags.snapshot, "Print what is stored now, and end");
  watch->add_option("--timeout", flags.timeout_seconds, "Seconds to wait for the snapshot")
      ->check(Within(0.01, 3600.0))
      ->capture_default_str();
  watch->callback([exit_code] { *exit_code = Watch(flags); });
}

}  // namespace ember::cli
