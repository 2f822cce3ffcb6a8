#include "client/store_client/client_metrics.h"

#include <string>

namespace ember {
namespace {

constexpr const char* kOperationNames[] = {"match", "get", "put"};
constexpr const char* kOutcomeNames[] = {"hit", "partial", "miss"};

Counter& AddBytes(MetricsRegistry& registry, const char* direction) {
  return registry.AddCounter("ember_client_payload_bytes_total",
                             "Segment payload moved between this client and the store.",
                             {{"direction", direction}});
}

}  // namespace

ClientMetrics::ClientMetrics(MetricsRegistry& registry)
    : bytes_loaded(AddBytes(registry, "load")),
      bytes_mapped(registry.AddCounter(
          "ember_client_mapped_bytes_total",
          "Segment payload loaded that was read in the memory of a node on this host.")),
      bytes_pushed(AddBytes(registry, "push")),
      failovers(registry.AddCounter("ember_client_failovers_total",
                                    "Segments asked of another copy after the first one failed.")),
      corrupt(registry.AddCounter("ember_client_corrupt_total",
                                  "Copies whose bytes did not match their checksum.")),
      views(registry.AddCounter("ember_client_views_total", "Member lists adopted.")) {
  for (size_t op = 0; op < kOperations; ++op) {
    for (size_t outcome = 0; outcome < kOutcomes; ++outcome) {
      requests_[op][outcome] = &registry.AddCounter(
          "ember_client_requests_total", "Calls of the store client, by how much was had.",
          {{"operation", kOperationNames[op]}, {"outcome", kOutcomeNames[outcome]}});
    }
    seconds_[op] =
        &registry.AddHistogram("ember_client_request_seconds", "Time of the store client's calls.",
                               {{"operation", kOperationNames[op]}});
  }
  for (size_t op = 0; op < misses_.size(); ++op) {
    for (size_t reason = 1; reason < kMissReasonCount; ++reason) {
      const std::string name(MissReasonName(static_cast<MissReason>(reason)));
      misses_[op][reason] =
          &registry.AddCounter("ember_client_misses_total", "Segments not had, by reason.",
                               {{"operation", kOperationNames[op]}, {"reason", name}});
    }
  }
}

void ClientMetrics::Record(Operation operation, size_t done, size_t asked, Duration took) {
  const Outcome outcome = done == asked ? kHit : done > 0 ? kPartial : kMiss;
  requests_[operation][outcome]->Add();
  seconds_[operation]->Observe(std::chrono::duration<double>(took).count());
}

}  // namespace ember
