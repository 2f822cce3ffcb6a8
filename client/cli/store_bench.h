// StoreBench: how fast a store is for one client process: put, match, get, in phases of their own,
// from several threads, with every loaded byte checked.
//
// Payloads are a function of the key: a window into one random block, at a place that the key's
// hash names; so neither making nor checking them costs more than a memory read. Run blocks.
#pragma once

#include <string>
#include <vector>

#include "client/store_client/store_client.h"

namespace ember::cli {

struct StoreBenchOptions {
  uint64_t segment_bytes = 1 << 20;
  uint32_t batch = 16;  // segments a call
  uint32_t threads = 4;
  Duration duration = seconds(5);  // of match and of get; a put ends earlier when all is put
  uint64_t working_set_bytes = 512 << 20;  // should fit in the store, or gets will miss
  Duration timeout = seconds(10);
};

struct BenchPhase {
  std::string name;  // "put", "match", "get"
  double seconds = 0;
  uint64_t calls = 0;
  uint64_t segments = 0;             // had (get, match) or stored with a copy at least (put)
  uint64_t bytes = 0;                // of their payloads, once whatever the copies
  uint64_t missed = 0;               // segments
  uint64_t wrong = 0;                // loaded segments whose bytes are not what was put: always 0
  std::vector<double> latencies_ms;  // sorted, of each call

  // 0 < q <= 1, by nearest rank; 0 of nothing.
  double LatencyMs(double q) const;
  double GigabytesPerSecond() const { return seconds > 0 ? bytes / seconds / 1e9 : 0; }
  double SegmentsPerSecond() const { return seconds > 0 ? segments / seconds : 0; }
};

class StoreBench {
 public:
  // kInvalid when the sizes can't be.
  static Result<StoreBench> Make(StoreClient& client, StoreBenchOptions options);

  // Put, match, get, in this order.
  std::vector<BenchPhase> Run();

 private:
  struct Batch {
    std::vector<SegmentRef> refs;
    std::vector<TokenId> tokens;
  };
  using Call = std::function<void(const Batch&, BenchPhase*)>;

  StoreBench(StoreClient& client, StoreBenchOptions options);
  BenchPhase RunPhase(const std::string& name, bool once, const Call& call) const;
  void Put(const Batch& batch, BenchPhase* phase) const;
  void Match(const Batch& batch, BenchPhase* phase) const;
  void Get(const Batch& batch, BenchPhase* phase) const;
  ByteSpan Payload(const SegmentRef& ref) const;
  std::span<const TokenId> Tokens(const Batch& batch, size_t segment) const;

  StoreClient& client_;
  StoreBenchOptions options_;
  LayoutDigest layout_;
  Bytes pattern_;
  std::vector<Batch> batches_;
};

}  // namespace ember::cli
