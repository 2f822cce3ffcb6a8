// What a fleet file says: a replica a line, "ID NAME=VALUE ...", the fields of ReplicaConfig parted
// by blanks; "#" begins a comment. A pure function of outside text, bounded; any thread.
#pragma once

#include <string_view>
#include <vector>

#include "router/fleet/replica_config.h"

namespace ember::router {

inline constexpr size_t kMaxFleetBytes = 1u << 20;

// kInvalid, with the number of the line, when any line is wrong or two have one id. A text without
// a single line or comment is refused too: it is what a writer leaves who has only just begun.
Result<std::vector<ReplicaConfig>> ParseFleetList(std::string_view text);

}  // namespace ember::router
