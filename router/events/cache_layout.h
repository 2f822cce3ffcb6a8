// CacheLayout: into which blocks and cache groups one engine cuts its cache, as its events tell.
// Engines of equal layout and model name a prompt's blocks alike. A plain value.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "router/events/kv_event.h"

namespace ember::router {

struct CacheLayout {
  struct Group {
    uint32_t block_size = 0;     // tokens
    uint32_t window_tokens = 0;  // only the last so many tokens of a prefix are needed; 0: all
    bool on_device = false;      // the device's events say so; else a slower tier's
    auto operator<=>(const Group&) const = default;
  };
  enum class Change : uint8_t {
    kNone,
    kNew,      // something was learned
    kPart,     // it is about a part of a block: the event is to be ignored
    kAnother,  // it is of an engine with smaller blocks: what was learned is to be dropped
    kTooMany,  // more groups or sizes than any engine has: the event is to be ignored
  };

  // Learns from an event with tokens.
  Change Learn(const KvStored& event);
  // 0: nothing is known of the group.
  uint32_t BlockSizeOf(uint32_t group) const {
    const auto known = groups.find(group);
    return known == groups.end() ? 0 : known->second.block_size;
  }
  // Whether all blocks of a prefix are needed in the group, which is known.
  bool NeedsAll(uint32_t group) const { return groups.at(group).window_tokens == 0; }

  std::map<uint32_t, Group> groups;  // by number; a prefix is needed in all of them
  // Block sizes of slower tiers that differ from the device's; each holds whole prefixes.
  std::vector<uint32_t> other_sizes;  // ascending
  auto operator<=>(const CacheLayout&) const = default;
};

}  // namespace ember::router
