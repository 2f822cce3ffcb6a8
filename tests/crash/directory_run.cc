#include "tests/crash/directory_run.h"

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>

#include "tests/unit/support/eventually.h"

namespace ember::testing {
namespace {

constexpr double kMostSteps = 600;
constexpr Duration kLongestLoad = seconds(3);
constexpr double kFirstStartMs = 150;  // before any was measured

// What a record, its region's header, footer and trailer, and the end that no record fits into may
// add to what was put. Regions of a shard that may be begun and hardly filled: the one that is
// open, and the one that was being sealed.
constexpr double kOverhead = 1.25;
constexpr uint64_t kPartRegions = 2;
// RocksDB's log and tables, the purges, and one catalog that was moved aside.
constexpr uint64_t kOtherBytes = 48ull << 20;

}  // namespace

DirectoryRun::DirectoryRun(RunOptions options, Verdicts* verdicts)
    : options_(std::move(options)),
      verdicts_(verdicts),
      random_(options_.seed),
      folder_(options_.folder + "/data"),
      node_(options_.store, options_.variant.Flags(folder_.path()), options_.folder + "/node.log"),
      shared_{.variant = options_.variant,
              .lives = &lives_,
              .verdicts = verdicts,
              .data = node_.data(),
              .grpc_address = node_.grpc_address()} {}

void DirectoryRun::LetThreadsWork() {
  const double share = static_cast<double>(Draw(1 << 20)) / (1 << 20);
  const uint64_t goal = shared_.steps + static_cast<uint64_t>(kMostSteps * share * share);
  (void)Eventually([&] { return shared_.steps >= goal; },
                   std::chrono::duration_cast<milliseconds>(kLongestLoad));
  LetTimePass(microseconds(Draw(3000)));  // not only between two steps
}

void DirectoryRun::Broken(const std::string& what) {
  verdicts_->Broken("life " + std::to_string(lives_.Now().life) + ": " + what);
}

RunReport DirectoryRun::Run() {
  std::filesystem::create_directories(options_.folder);
  for (uint32_t i = 0; i < options_.threads; ++i) {
    loads_.push_back(
        std::make_unique<LoadThread>(&shared_, "load-" + std::to_string(i), random_.Next()));
  }
  for (auto& load : loads_) threads_.emplace_back([&load] { load->Run(); });
  while (report_.kills < options_.kills && verdicts_->clean()) Cycle();
  if (verdicts_->clean()) End();
  StopThreads();
  report_.put_bytes = shared_.put_bytes;
  return report_;
}

// One process, from its start to its end.
void DirectoryRun::Cycle() {
  const uint64_t choice = Draw(100);
  if (!StartNode(choice < 20)) return;
  if (choice < 80) {
    KillUnderLoad();
  } else if (choice < 92) {
    KillWhileStopping();
  } else {
    LetThreadsWork();
    StopInOrder();
  }
  if (Draw(8) == 0) Fsck();
}

bool DirectoryRun::StartNode(bool kill_while_starting) {
  HarmCatalog();
  double expected_ms = kFirstStartMs;
  if (!report_.ready_ms.empty()) expected_ms = report_.ready_ms.back();
  lives_.Spawned();
  const TimePoint begin = SteadyClock().Now();
  node_.Start();
  if (kill_while_starting) {
    LetTimePass(microseconds(Draw(static_cast<uint64_t>(expected_ms * 1300))));
    ++report_.kills_starting;
    KillUnderLoad();
    return false;
  }
  if (!node_.WaitUntilReady()) {
    Broken("the node did not become ready");
    return false;
  }
  report_.ready_ms.push_back(ToMilliseconds(SteadyClock().Now() - begin));
  lives_.Ready();
  return true;
}

void DirectoryRun::KillUnderLoad() {
  if (lives_.Now().up) LetThreadsWork();
  lives_.Signalled();
  node_.Signal(SIGKILL);
  const std::optional<int> end = node_.WaitForEnd();
  if (!end || !WIFSIGNALED(*end) || WTERMSIG(*end) != SIGKILL) {
    Broken("the node ended by itself, status " + std::to_string(end.value_or(-1)));
  }
  ++report_.kills;
  lives_.Ended(Lives::End::kKilled);
}

void DirectoryRun::KillWhileStopping() {
  LetThreadsWork();
  lives_.Signalled();
  node_.Signal(SIGTERM);
  LetTimePass(microseconds(Draw(stop_ms_ * 1200)));
  node_.Signal(SIGKILL);
  const std::optional<int> end = node_.WaitForEnd();
  if (end && WIFEXITED(*end) && WEXITSTATUS(*end) == 0) {  // it was faster
    ++report_.orderly;
    return lives_.Ended(Lives::End::kOrderly);
  }
  if (!end || !WIFSIGNALED(*end) || WTERMSIG(*end) != SIGKILL) {
    Broken("the node ended with status " + std::to_string(end.value_or(-1)));
  }
  ++report_.kills;
  ++report_.kills_stopping;
  lives_.Ended(Lives::End::kKilled);
}

void DirectoryRun::StopInOrder() {
  lives_.Signalled();
  const TimePoint begin = SteadyClock().Now();
  if (!node_.Stop()) Broken("the node did not stop in order");
  stop_ms_ = 1 + static_cast<uint64_t>(ToMilliseconds(SteadyClock().Now() - begin));
  ++report_.orderly;
  lives_.Ended(Lives::End::kOrderly);
}

void DirectoryRun::HarmCatalog() {
  if (Draw(3) != 0) return;
  if (options_.variant.catalog == Variant::Catalog::kDeleted) folder_.DeleteCatalog();
  if (options_.variant.catalog == Variant::Catalog::kDamaged) folder_.DamageCatalog(&random_);
}

void DirectoryRun::StopThreads() {
  shared_.stopping = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

// All that was ever put, in a node that was killed before, then in one that was stopped.
void DirectoryRun::End() {
  if (!StartNode(false)) return;
  StopThreads();
  Verify();
  CheckMetrics();
  StopInOrder();
  Fsck();
  CheckFolder();
  if (!StartNode(false)) return;
  Verify();
  CheckMetrics();
  StopInOrder();
}

void DirectoryRun::Verify() {
  std::vector<std::thread> threads;
  for (auto& load : loads_) threads.emplace_back([&load] { load->VerifyAll(); });
  for (std::thread& thread : threads) thread.join();
}

void DirectoryRun::CheckMetrics() {
  std::vector<std::string> zero = {
      "ember_store_scrub_corruptions_total", "ember_store_disk_read_errors_total",
      "ember_store_disk_write_errors_total", "ember_store_disk_written_off_regions_total",
      "ember_store_disk_degraded",           "ember_store_disk_lost_records_total"};
  if (!options_.variant.evicts) zero.push_back("ember_store_disk_evicted_regions_total");
  for (const std::string& name : zero) {
    const std::optional<double> value = node_.Metric(name);
    if (value != 0) Broken(name + " is " + std::to_string(value.value_or(-1)) + ", not 0");
  }
}

// What a crash may leave behind must not pile up.
void DirectoryRun::CheckFolder() {
  const DataFolder::Use use = folder_.Measure();
  report_.region_bytes = use.region_bytes;
  for (const std::string& name : use.strangers) Broken("a stray file: " + name);
  if (use.region_bytes > options_.variant.disk_mib << 20) {
    Broken("region files take " + std::to_string(use.region_bytes) + " bytes, over the cap");
  }
  if (use.other_bytes > kOtherBytes) {
    Broken("other files take " + std::to_string(use.other_bytes) + " bytes");
  }
  if (use.regions == 0) return;
  const uint64_t region = use.region_bytes / use.regions;
  const double needed = kOverhead * static_cast<double>(shared_.put_bytes) +
                        static_cast<double>(kPartRegions * options_.variant.shards * region);
  if (static_cast<double>(use.region_bytes) > needed) {
    Broken("region files take " + std::to_string(use.region_bytes) + " bytes for " +
           std::to_string(shared_.put_bytes.load()) + " that were put");
  }
}

void DirectoryRun::Fsck() {
  if (options_.fsck.empty()) return;
  const std::string command =
      options_.fsck + " " + folder_.path() + " >" + options_.folder + "/fsck.log 2>&1";
  if (const int status = std::system(command.c_str()); status != 0) {
    Broken("ember-fsck found damage, status " + std::to_string(status) + ": see " +
           options_.folder + "/fsck.log");
  }
}

}  // namespace ember::testing
