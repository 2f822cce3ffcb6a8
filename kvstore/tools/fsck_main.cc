// ember-fsck: checks a data directory of ember-store offline, and says what it found.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "client/io/sync.h"
#include "kvstore/disk/data_directory.h"
#include "kvstore/disk/directory_check.h"
#include "kvstore/disk/directory_lock.h"
#include "kvstore/disk/rocks_catalog.h"

namespace ember::kv {
namespace {

constexpr int kClean = 0, kDamaged = 1, kUsage = 2, kUnreadable = 3;

constexpr char kDescription[] =
    "Checks a data directory of ember-store that no node uses now: its identity, every region,\n"
    "record and payload, the catalog against them, and the journal of purges. Changes nothing\n"
    "unless --rebuild-catalog is given.";
constexpr char kFooter[] =
    "A \"torn\" record was being written when the node was killed; the next start drops it. It is "
    "no\n"
    "damage. Exit codes: 0 clean, 1 damage found, 2 wrong command line, 3 it could not be read.";

struct Arguments {
  std::string directory;
  bool quick = false;
  bool json = false;
  bool rebuild_catalog = false;
};

int Unreadable(const Status& why) {
  std::fprintf(stderr, "ember-fsck: %s\n", std::string(why.message()).c_str());
  return kUnreadable;
}

void ShowProgress(uint64_t done, uint64_t total) {
  static uint64_t shown = 0;
  const uint64_t percent = total == 0 ? 100 : done * 100 / total;
  if (percent == shown) return;
  shown = percent;
  std::fprintf(stderr, "\r%3d %% of %llu MiB%s", static_cast<int>(percent),
               static_cast<unsigned long long>(total >> 20), percent == 100 ? "\n" : "");
}

void PrintText(const CheckReport& report, const std::string& directory,
               const std::string& catalog) {
  for (const CheckFinding& finding : report.findings) {
    std::printf("damaged %s offset %llu: %s\n", finding.path.c_str(),
                static_cast<unsigned long long>(finding.offset), finding.reason.c_str());
  }
  if (report.damaged > report.findings.size()) {
    std::printf("... and %llu more\n",
                static_cast<unsigned long long>(report.damaged - report.findings.size()));
  }
  std::printf("%s: node %s, %u shards\n", directory.c_str(), report.identity.node.c_str(),
              report.identity.shards);
  std::printf("regions  %llu sealed, %llu open, %llu unused, %llu MiB\n",
              static_cast<unsigned long long>(report.regions_sealed),
              static_cast<unsigned long long>(report.regions_open),
              static_cast<unsigned long long>(report.regions_unused),
              static_cast<unsigned long long>(report.region_bytes >> 20));
  std::printf("records  %llu whole (%llu MiB), %llu of them not listed, %llu torn\n",
              static_cast<unsigned long long>(report.records),
              static_cast<unsigned long long>(report.record_bytes >> 20),
              static_cast<unsigned long long>(report.unlisted),
              static_cast<unsigned long long>(report.torn));
  std::printf("catalog  %s\n", catalog.c_str());
  std::printf("purges   %llu\n", static_cast<unsigned long long>(report.purges));
  std::printf("%s\n", report.damaged == 0 ? "clean"
                                          : (std::to_string(report.damaged) + " damaged").c_str());
}

void PrintJson(const CheckReport& report, const std::string& directory,
               const std::string& catalog) {
  nlohmann::json out = {{"directory", directory},
                        {"cluster", report.identity.cluster},
                        {"node", report.identity.node},
                        {"shards", report.identity.shards},
                        {"regions_sealed", report.regions_sealed},
                        {"regions_open", report.regions_open},
                        {"regions_unused", report.regions_unused},
                        {"region_bytes", report.region_bytes},
                        {"records", report.records},
                        {"record_bytes", report.record_bytes},
                        {"unlisted", report.unlisted},
                        {"torn", report.torn},
                        {"purges", report.purges},
                        {"catalog", catalog},
                        {"catalog_rows", report.catalog_rows},
                        {"damaged", report.damaged},
                        {"findings", nlohmann::json::array()}};
  for (const CheckFinding& finding : report.findings) {
    out["findings"].push_back(
        {{"path", finding.path}, {"offset", finding.offset}, {"reason", finding.reason}});
  }
  std::printf("%s\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

int CheckNow(io::Loop& loop, const Arguments& arguments) {
  CheckOptions options;
  options.payloads = !arguments.quick;
  if (isatty(STDERR_FILENO) != 0) options.progress = ShowProgress;
  std::string catalog = "agrees with the regions";
  Result<std::map<uint32_t, CatalogContents>> contents =
      RocksCatalog::Read(CatalogFolder(arguments.directory));
  const bool catalog_damaged = contents.status().code() == StatusCode::kCorrupt;
  if (contents.ok()) {
    options.catalog = *std::move(contents);
  } else {
    catalog = std::string(contents.status().message()) + "; the next start makes a new one";
  }
  Result<CheckReport> report = io::RunOnLoop<Result<CheckReport>>(
      loop, [&] { return CheckDirectory(&loop.files(), arguments.directory, std::move(options)); });
  if (!report.ok()) return Unreadable(report.status());
  if (catalog_damaged) ++report->damaged;
  if (contents.ok()) catalog += ", " + std::to_string(report->catalog_rows) + " rows";
  (arguments.json ? PrintJson : PrintText)(*report, arguments.directory, catalog);
  return report->damaged == 0 ? kClean : kDamaged;
}

int RebuildCatalog(io::Loop& loop, const Arguments& arguments) {
  const std::string folder = CatalogFolder(arguments.directory);
  Result<std::vector<CatalogBatch>> batches = io::RunOnLoop<Result<std::vector<CatalogBatch>>>(
      loop, [&] { return CatalogFromRegions(&loop.files(), arguments.directory); });
  if (!batches.ok()) return Unreadable(batches.status());
  if (const Status moved = RocksCatalog::MoveAside(folder); !moved.ok()) return Unreadable(moved);
  std::string lost;
  auto catalog = RocksCatalog::Open(folder, &lost);
  if (!catalog.ok()) return Unreadable(catalog.status());
  size_t rows = 0;
  Status first_error;
  for (CatalogBatch& batch : *batches) {
    rows += batch.records.size();
    std::promise<Status> done;
    (*catalog)->Write(&loop, std::move(batch), [&](Status status) { done.set_value(status); });
    const Status written = done.get_future().get();
    if (first_error.ok()) first_error = written;
  }
  if (!first_error.ok()) return Unreadable(first_error);
  std::printf("catalog rebuilt from %zu regions: %zu rows; what was there is kept as %s.bad\n",
              batches->size(), rows, folder.c_str());
  return kClean;
}

int Run(const Arguments& arguments) {
  // Else a mistyped name would be made a directory by taking the lock.
  if (access((arguments.directory + "/IDENTITY").c_str(), R_OK) != 0) {
    return Unreadable(NotFoundError(arguments.directory + ": no data directory (no IDENTITY)"));
  }
  // A directory that can't be written can't be in use either, and is read all the same.
  Result<std::unique_ptr<DirectoryLock>> lock = DirectoryLock::Take(arguments.directory);
  if (lock.status().code() == StatusCode::kBusy) return Unreadable(lock.status());
  if (arguments.rebuild_catalog && !lock.ok()) return Unreadable(lock.status());
  Result<std::unique_ptr<io::LoopThread>> thread = io::LoopThread::Make(io::Backend::kAuto);
  if (!thread.ok()) return Unreadable(thread.status());
  io::Loop& loop = (*thread)->loop();
  if (arguments.rebuild_catalog) {
    const int rebuilt = RebuildCatalog(loop, arguments);
    if (rebuilt != kClean) return rebuilt;
  }
  return CheckNow(loop, arguments);
}

}  // namespace
}  // namespace ember::kv

int main(int argc, char** argv) {
  using ember::kv::kUsage;
  ember::kv::Arguments arguments;
  CLI::App app(ember::kv::kDescription, "ember-fsck");
  app.footer(ember::kv::kFooter);
  app.set_version_flag("--version", "ember-fsck " EMBER_VERSION);
  app.add_option("directory", arguments.directory, "The node's --data")->required();
  app.add_flag("--quick", arguments.quick, "Without the payloads");
  app.add_flag("--json", arguments.json, "The report as JSON");
  app.add_flag("--rebuild-catalog", arguments.rebuild_catalog,
               "First make a new catalog from the regions");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::CallForVersion& e) {
    std::printf("%s\n", e.what());
    return 0;
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "ember-fsck: %s (see --help)\n", e.what());
    return kUsage;
  }
  return ember::kv::Run(arguments);
}
