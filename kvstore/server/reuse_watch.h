// ReuseWatch: notices a shard that is only ever written: segments come, lookups come, and none of
// them finds anything. Then readers and writers probably do not mean the same thing (another model
// digest, layout, tenant or salt), which nothing else would tell: every miss by itself is in order.
//
// Says so once in the log, with the reason that most lookups missed for, and by a gauge until the
// next hit. Concurrency: the shard's thread only.
#pragma once

#include <string>

#include "kvstore/engine/engine_metrics.h"

namespace ember::kv {

class ReuseWatch {
 public:
  // So many segments stored and lookups missed without a single hit are suspicious.
  static constexpr uint64_t kEnough = 500;

  ReuseWatch(const EngineMetrics* metrics, Gauge* no_reuse, uint32_t shard)
      : metrics_(metrics), no_reuse_(no_reuse), shard_(shard) {}

  // Every now and then.
  void Look();

 private:
  // The counters when the last hit was seen, or at the start.
  struct Mark {
    uint64_t hits = 0;
    uint64_t stored = 0;
    std::array<uint64_t, kMissReasonCount> misses{};
  };
  Mark Now() const;
  void Warn(const Mark& now) const;

  const EngineMetrics* const metrics_;
  Gauge* const no_reuse_;
  const uint32_t shard_;
  Mark mark_;
  bool warned_ = false;
};

}  // namespace ember::kv
