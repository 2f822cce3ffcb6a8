// TtlTable: how long a segment of each namespace may live.
#pragma once

#include <cstddef>
#include <optional>
#include <unordered_map>

#include "proto/base/status.h"
#include "proto/base/time.h"
#include "proto/model/kv_namespace.h"

namespace ember::kv {

class TtlTable {
 public:
  // `fallback` is for namespaces without a setting of their own; zero = for ever.
  TtlTable(Duration fallback, size_t max_overrides)
      : fallback_(fallback), max_overrides_(max_overrides) {}

  // Zero = for ever; nothing = as the others. kBusy when too many namespaces have their own.
  Status Set(const NamespaceId& ns, std::optional<Duration> ttl);

  // When something ends that was made at `created_ms`, while the clocks show `now` and `wall_ms`;
  // TimePoint::max() for never. A creation in the future (the wall clock was set back) is now's.
  TimePoint ExpiryOf(const NamespaceId& ns, int64_t created_ms, TimePoint now,
                     int64_t wall_ms) const;

 private:
  const Duration fallback_;
  const size_t max_overrides_;
  std::unordered_map<NamespaceId, Duration> overrides_;
};

}  // namespace ember::kv
