// A replica as the admin API is given it: a flat JSON object of ReplicaConfig's fields. A pure
// function of outside text, bounded; any thread.
#pragma once

#include <string_view>

#include "router/fleet/replica_config.h"

namespace ember::router {

// {"id":"r1","http":"10.0.0.7:8000","ranks":2}; kInvalid says what is wrong. Reads no file.
Result<ReplicaConfig> ReadReplicaJson(std::string_view text);

}  // namespace ember::router
