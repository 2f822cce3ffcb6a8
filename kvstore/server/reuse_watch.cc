#include "kvstore/server/reuse_watch.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <numeric>

namespace ember::kv {
namespace {

std::string_view Advice(MissReason reason) {
  switch (reason) {
    case MissReason::kNeverStored:
      return "readers ask for other keys than writers put: compare model, layout, tenant and salt "
             "of both, unless no prompt shares a prefix with an earlier one";
    case MissReason::kEvicted:
      return "segments leave before they are asked for: give the node more --memory or --disk";
    case MissReason::kExpired:
      return "segments expire before they are asked for: raise --ttl";
    case MissReason::kPurged:
      return "what is asked for was purged";
    default:
      return "see ember_store_misses_total";
  }
}

}  // namespace

ReuseWatch::Mark ReuseWatch::Now() const {
  Mark now{.hits = metrics_->hits.value(), .stored = metrics_->put_stored.value(), .misses = {}};
  for (size_t i = 1; i < kMissReasonCount; ++i) now.misses[i] = metrics_->misses[i]->value();
  return now;
}

void ReuseWatch::Look() {
  const Mark now = Now();
  if (now.hits != mark_.hits) {
    mark_ = now;
    warned_ = false;
    no_reuse_->Set(0);
    return;
  }
  if (warned_ || now.stored - mark_.stored < kEnough) return;
  const uint64_t missed = std::accumulate(now.misses.begin(), now.misses.end(), uint64_t{0}) -
                          std::accumulate(mark_.misses.begin(), mark_.misses.end(), uint64_t{0});
  if (missed < kEnough) return;
  warned_ = true;
  no_reuse_->Set(1);
  Warn(now);
}

void ReuseWatch::Warn(const Mark& now) const {
  size_t most = 1;
  const auto count = [&](size_t i) { return now.misses[i] - mark_.misses[i]; };
  for (size_t i = 2; i < kMissReasonCount; ++i) {
    if (count(i) > count(most)) most = i;
  }
  const auto reason = static_cast<MissReason>(most);
  spdlog::warn(
      "nothing that is stored is ever found shard={} stored={} hits=0 reason={} misses={} "
      "advice=\"{}\"",
      shard_, now.stored - mark_.stored, MissReasonName(reason), count(most), Advice(reason));
}

}  // namespace ember::kv
