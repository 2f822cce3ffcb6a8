// StoreSuite: the figures by which a store node is compared with others, as one client process sees
// them: one call at a time, one thread, every byte verified by the client and once more, after the
// clock has stopped, against what was put.
//
// The node must be fresh and hold nothing else; its arena must be larger than what Run keeps at
// once (NodeBytes). Payloads are a function of the key: a place in one random block as large as the
// buffers, so that neither side's memory is in the cache. Run blocks.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "client/cli/bench_figure.h"
#include "client/store_client/store_client.h"

namespace ember::cli {

struct StoreSuiteOptions {
  // Of what is measured; all when empty. See Run.
  std::set<std::string> only;
  // Of the node's process on this machine: its CPU seconds and memory are measured. 0: not.
  pid_t node = 0;
  Duration timeout = seconds(30);
  // The client reads in the node's memory: other figures are measured. See Run.
  bool shm = false;
  // Of each figure's work, over the usual: below 1 shows that it runs, not how fast.
  double scale = 1;
  // Of what is put and of where it is loaded, each; a prefix's segments are a 1024th of it.
  uint64_t buffer_bytes = 512 << 20;
};

class StoreSuite {
 public:
  StoreSuite(StoreClient& client, StoreSuiteOptions options);

  // prefix_put, prefix_load (GB/s), cpu_prefix_put, cpu_prefix_load (CPU s/GB, client and node):
  //   256 segments of 512 KiB (see buffer_bytes) in one call;
  // get_64k_p50, get_1m_p50, get_4m_p50 (us), cpu_get_1m: one segment a call;
  // match_256 (calls/s): the longest prefix of 256 keys;
  // idle_rss_mib, memory_overhead: the node's memory when it is empty; per stored byte.
  // With `shm`, on the node's host: shm_copy (GB/s): 256 segments of 512 KiB in one call, copied
  //   out and verified; shm_in_place_1m, shm_in_place_4m (us, p50): one segment a call, no copy.
  // An error when a call failed, missed, or brought other bytes.
  Result<std::vector<BenchFigure>> Run();

  // What the node's arena must have room for.
  static uint64_t NodeBytes(const StoreSuiteOptions& options);

 private:
  struct Chain;
  struct Usage;
  using Step = std::function<Status(size_t)>;

  Status Memory();
  Status Prefixes();
  Status Singles(const std::string& name, uint64_t size);
  Status Matches();
  Status SharedCopies();
  Status InPlace(const std::string& name, uint64_t size);
  Status Put(const Chain& chain);
  Status Load(const Chain& chain, size_t first, size_t count, uint64_t place);
  Status Compare(const Chain& chain, size_t first, size_t count, uint64_t place) const;
  Chain MakeChain(size_t segments, uint64_t segment_bytes);
  ByteSpan Payload(const Chain& chain, size_t segment) const;
  Usage UsageNow() const;
  uint64_t prefix_segment_bytes() const { return options_.buffer_bytes >> 10; }
  bool Wanted(std::initializer_list<const char*> names) const;
  size_t Scaled(size_t count) const;
  void Add(std::string name, std::string unit, double value);

  StoreClient& client_;
  const StoreSuiteOptions options_;
  LayoutDigest layout_;
  NamespaceRoot root_;
  uint32_t chains_ = 0;
  Bytes source_;
  Bytes target_;
  std::vector<BenchFigure> figures_;
};

}  // namespace ember::cli
