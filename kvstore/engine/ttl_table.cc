#include "kvstore/engine/ttl_table.h"

#include <algorithm>

namespace ember::kv {
namespace {

// Longer is for ever; so no sum overflows.
constexpr Duration kLongest = std::chrono::years(100);

}  // namespace

Status TtlTable::Set(const NamespaceId& ns, std::optional<Duration> ttl) {
  if (!ttl) {
    overrides_.erase(ns);
    return OkStatus();
  }
  if (*ttl < Duration::zero()) return InvalidError("a time to live is not negative");
  if (overrides_.size() >= max_overrides_ && !overrides_.contains(ns)) {
    return BusyError("too many namespaces have a time to live of their own");
  }
  overrides_[ns] = *ttl;
  return OkStatus();
}

TimePoint TtlTable::ExpiryOf(const NamespaceId& ns, int64_t created_ms, TimePoint now,
                             int64_t wall_ms) const {
  auto it = overrides_.empty() ? overrides_.end() : overrides_.find(ns);
  const Duration ttl = it == overrides_.end() ? fallback_ : it->second;
  if (ttl == Duration::zero() || ttl > kLongest) return TimePoint::max();
  const int64_t oldest = wall_ms - kLongest / milliseconds(1);
  return now + (ttl - milliseconds(wall_ms - std::clamp(created_ms, oldest, wall_ms)));
}

}  // namespace ember::kv
