// DiskBench: what a node's disk tier keeps and how fast it gives it back, on a node of its own that
// it kills and starts again.
//
// All calls are of one client with one thread; every byte is verified by the client and once more
// against what was put. Payloads are a function of their place. Run blocks, on the main thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/cli/bench_figure.h"
#include "client/cli/child_process.h"
#include "client/store_client/store_client.h"

namespace ember::cli {

struct DiskBenchOptions {
  std::string program;     // path of ember-store
  std::string directory;   // for its data; must not be one of another node
  size_t survivors = 128;  // segments put at the level `disk` before the kill
  uint64_t read_bytes = 1ull << 30;
  int rounds = 3;  // of reading
  Duration timeout = seconds(60);
  std::vector<std::string> node_flags;  // more of them
};

class DiskBench {
 public:
  explicit DiskBench(DiskBenchOptions options);

  // restart_survivors, restart_wrong (segments of 1 MiB acknowledged at `disk`, then KILL -9 and a
  // restart), restart_ready (s until the node with read_bytes on disk answers), disk_put_1m (GB/s,
  // acknowledged at `disk`), disk_read_1m (GB/s, more than memory holds, so all from disk).
  Result<std::vector<BenchFigure>> Run();

 private:
  struct Chain;

  Status StartNode(uint64_t memory_bytes);
  void KillNode();
  Chain MakeChain(uint32_t number, size_t segments);
  // Segments acknowledged on disk.
  Result<size_t> Put(const Chain& chain);
  struct Loaded {
    size_t right = 0;  // segments that came back with the bytes that were put
    size_t wrong = 0;
    double seconds = 0;  // of the loads alone, without comparing
  };
  Loaded Load(const Chain& chain);
  Status Survive();
  Status Read();

  const DiskBenchOptions options_;
  std::optional<ChildProcess> node_;
  std::unique_ptr<StoreClient> client_;
  LayoutDigest layout_;
  NamespaceRoot root_;
  Bytes source_;
  Bytes target_;
  std::vector<BenchFigure> figures_;
};

}  // namespace ember::cli
