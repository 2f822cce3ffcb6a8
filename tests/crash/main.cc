// crash_loop: kills a real ember-store at random moments under load, again and again, and compares
// everything it says afterwards with what it had promised. See README.md.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "tests/crash/directory_run.h"

namespace ember::testing {
namespace {

constexpr uint32_t kKillsPerDirectory = 16;

struct Flags {
  std::string store, fsck, folder;
  uint64_t seed = 0;
  uint32_t kills = 200;
  uint32_t threads = 4;
  std::optional<uint64_t> directory;
  bool keep = false;
};

double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

void Print(uint64_t number, const Variant& variant, const RunReport& report, double seconds) {
  std::printf(
      "directory %3lu  %s: %u kills (%u starting, %u stopping), %u orderly, ready p50 %.0f max "
      "%.0f ms, put %lu MiB, regions %lu MiB, %.1f s\n",
      number, variant.ToString().c_str(), report.kills, report.kills_starting,
      report.kills_stopping, report.orderly, Quantile(report.ready_ms, 0.5),
      Quantile(report.ready_ms, 1), report.put_bytes >> 20, report.region_bytes >> 20, seconds);
  std::fflush(stdout);
}

int Run(const Flags& flags) {
  Verdicts verdicts;
  std::vector<double> ready_ms;
  uint32_t kills = 0;
  const uint64_t first = flags.directory.value_or(0);
  uint64_t number = first;
  for (; kills < flags.kills && verdicts.clean(); ++number) {
    const TimePoint begin = SteadyClock().Now();
    RunOptions options;
    options.store = flags.store;
    options.fsck = flags.fsck;
    options.folder = flags.folder + "/" + std::to_string(number);
    options.seed = SeededRandom(flags.seed * 1'000'003 + number).Next();
    options.kills = std::min(kKillsPerDirectory, flags.kills - kills);
    options.threads = flags.threads;
    // Where the round begins is drawn, too, so that short runs do not always see the same variants.
    options.variant = Variant::Of(SeededRandom(flags.seed).Next() % 36 + number);
    std::filesystem::remove_all(options.folder);
    const RunReport report = DirectoryRun(options, &verdicts).Run();
    kills += report.kills;
    ready_ms.insert(ready_ms.end(), report.ready_ms.begin(), report.ready_ms.end());
    Print(number, options.variant, report, ToMilliseconds(SteadyClock().Now() - begin) / 1000);
    if (verdicts.clean() && !flags.keep) std::filesystem::remove_all(options.folder);
  }
  std::printf(
      "%u kills, %zu starts, ready p50 %.0f p99 %.0f max %.0f ms; %lu segments acknowledged (%lu "
      "on "
      "disk); %lu read and compared (%lu MiB), %lu of them promised; %lu allowed misses; %lu "
      "purges, %lu times something purged was away\n",
      kills, ready_ms.size(), Quantile(ready_ms, 0.5), Quantile(ready_ms, 0.99),
      Quantile(ready_ms, 1), verdicts.puts.load(), verdicts.durable.load(), verdicts.hits.load(),
      verdicts.hit_bytes.load() >> 20, verdicts.must_hits.load(), verdicts.allowed_misses.load(),
      verdicts.purges.load(), verdicts.purged_misses.load());
  if (verdicts.clean()) {
    std::printf("0 promises broken (seed %lu)\n", flags.seed);
    return 0;
  }
  for (const std::string& broken : verdicts.kept()) std::printf("BROKEN: %s\n", broken.c_str());
  std::printf(
      "%lu promises broken. Data directory and log: %s/%lu\nThe same kind of load and kills again "
      "(not the same moments): crash_loop --seed=%lu --directory=%lu --kills=%u\n",
      verdicts.broken(), flags.folder.c_str(), number - 1, flags.seed, number - 1,
      kKillsPerDirectory);
  return 1;
}

}  // namespace
}  // namespace ember::testing

int main(int argc, char** argv) {
  ember::testing::Flags flags;
  flags.folder =
      (std::filesystem::temp_directory_path() / ("ember-crash-" + std::to_string(getpid())))
          .string();
  CLI::App app("Kills an ember-store at random moments under load and checks its promises.");
  app.add_option("--store", flags.store, "Path of ember-store")->required();
  app.add_option("--fsck", flags.fsck, "Path of ember-fsck, to run it between processes");
  app.add_option("--folder", flags.folder, "For data directories and logs")->capture_default_str();
  app.add_option("--seed", flags.seed, "Of load, variants and kills [drawn]");
  app.add_option("--kills", flags.kills, "How many SIGKILLs")->capture_default_str();
  app.add_option("--threads", flags.threads, "That load the node")->capture_default_str();
  app.add_option("--directory", flags.directory, "Begin with this one, to repeat a failure");
  app.add_flag("--keep", flags.keep, "Keep data directories that passed");
  flags.seed = ember::SystemRandom().Next() % 1'000'000'000;
  CLI11_PARSE(app, argc, argv);
  std::printf("seed %lu\n", flags.seed);
  std::fflush(stdout);
  const int code = ember::testing::Run(flags);
  if (code == 0) std::filesystem::remove_all(flags.folder);
  return code;
}
