#include "router/events/cache_layout.h"

#include <algorithm>

namespace ember::router {
namespace {

constexpr size_t kMaxGroups = 16;
constexpr size_t kMaxOtherSizes = 4;

uint32_t WindowOf(const KvStored& event) {
  if (event.window_tokens > 0) return event.window_tokens;
  // How long a chunk is, all of which is needed, no event tells. Engines evict a prompt's end
  // first: where the last block is held, those before it are.
  const bool chunks = event.group_kind.starts_with("chunked_local");
  return chunks || IsRecurrent(event.group_kind) ? event.block_size : 0;
}

}  // namespace

CacheLayout::Change CacheLayout::Learn(const KvStored& event) {
  const bool device = event.tier == HolderTier::kDevice;
  const Group told{event.block_size, WindowOf(event), device};
  const auto known = groups.find(event.group);
  if (known == groups.end()) {
    if (groups.size() >= kMaxGroups) return Change::kTooMany;
    groups.emplace(event.group, told);
    return Change::kNew;
  }
  Group& group = known->second;
  if (group.block_size == event.block_size) {
    if (!device || group == told) return Change::kNone;
    group = told;
    return Change::kNew;
  }
  if (device && group.on_device) {
    // vLLM tells of a prompt's last block, which is not full, as of a smaller one, alone. The
    // largest size that is told is the group's: no engine changes it while it runs.
    if (event.block_size < group.block_size) {
      return event.keys.size() > 1 ? Change::kAnother : Change::kPart;
    }
    group = told;
    return Change::kNew;
  }
  // A slower tier cuts otherwise than the device does.
  const uint32_t other = device ? group.block_size : event.block_size;
  if (device) group = told;
  const auto place = std::lower_bound(other_sizes.begin(), other_sizes.end(), other);
  if (place != other_sizes.end() && *place == other) return Change::kNone;
  if (other_sizes.size() >= kMaxOtherSizes) return Change::kTooMany;
  other_sizes.insert(place, other);
  return Change::kNew;
}

}  // namespace ember::router
