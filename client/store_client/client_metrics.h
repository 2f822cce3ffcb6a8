// ClientMetrics: what the store client counts, under ember_client_* in the registry it was given.
//
// Any thread.
#pragma once

#include <array>

#include "proto/base/metrics.h"
#include "proto/base/time.h"
#include "proto/model/miss_reason.h"

namespace ember {

class ClientMetrics {
 public:
  // hit: all of it; partial: some; miss: nothing (of a put: no copy at all).
  enum Operation { kMatch, kGet, kPut, kOperations };
  enum Outcome { kHit, kPartial, kMiss, kOutcomes };

  explicit ClientMetrics(MetricsRegistry& registry);

  // `done` of `asked` segments; `took` from call to return.
  void Record(Operation operation, size_t done, size_t asked, Duration took);
  // Of one segment of a match or get; kNone is none.
  void RecordMiss(Operation operation, MissReason reason) {
    if (reason != MissReason::kNone) misses_[operation][static_cast<size_t>(reason)]->Add();
  }

  Counter& bytes_loaded;
  Counter& bytes_mapped;  // of bytes_loaded: read in the memory of a node on this host
  Counter& bytes_pushed;  // to all owners together
  Counter& failovers;     // segments asked of another copy after the first failed
  Counter& corrupt;       // copies whose bytes did not match their checksum
  Counter& views;         // member lists adopted

 private:
  std::array<std::array<Counter*, kOutcomes>, kOperations> requests_;
  std::array<Histogram*, kOperations> seconds_;
  std::array<std::array<Counter*, kMissReasonCount>, kPut> misses_;
};

}  // namespace ember
