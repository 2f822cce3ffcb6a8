// DirectoryRun: one data directory's part of the crash loop: starts a node on it again and again
// under load, kills it at random moments, and at the end compares all of it with what was promised.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "tests/crash/data_folder.h"
#include "tests/crash/load_thread.h"
#include "tests/crash/store_process.h"

namespace ember::testing {

struct RunOptions {
  std::string store;   // path of ember-store
  std::string fsck;    // path of ember-fsck; empty: without
  std::string folder;  // for the data directory and the log
  uint64_t seed = 0;
  uint32_t kills = 0;  // of this directory
  uint32_t threads = 4;
  Variant variant;
};

struct RunReport {
  uint32_t kills = 0;  // that met a living process
  uint32_t kills_starting = 0;
  uint32_t kills_stopping = 0;
  uint32_t orderly = 0;  // processes that ended by SIGTERM
  std::vector<double> ready_ms;
  uint64_t put_bytes = 0;
  uint64_t region_bytes = 0;
};

class DirectoryRun {
 public:
  DirectoryRun(RunOptions options, Verdicts* verdicts);
  RunReport Run();

 private:
  void Cycle();
  // False when it was killed before it was ready.
  bool StartNode(bool kill_while_starting);
  void KillUnderLoad();
  void KillWhileStopping();
  void StopInOrder();
  void End();
  void HarmCatalog();
  void StopThreads();
  void Verify();
  void CheckMetrics();
  void CheckFolder();
  void Fsck();
  void Broken(const std::string& what);

  uint64_t Draw(uint64_t below) { return random_.Next() % below; }
  // Lets the threads do something, from nothing to much. In steps and not in time, so that a busy
  // machine changes little.
  void LetThreadsWork();

  const RunOptions options_;
  Verdicts* const verdicts_;
  SeededRandom random_;
  Lives lives_;
  DataFolder folder_;
  StoreProcess node_;
  LoadShared shared_;
  std::vector<std::unique_ptr<LoadThread>> loads_;
  std::vector<std::thread> threads_;
  RunReport report_;
  uint64_t stop_ms_ = 30;  // that the last stop in order took
};

}  // namespace ember::testing
