// ReplicaNumber: a replica's place in the ReplicaSet.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ember::router {

using ReplicaNumber = uint32_t;
inline constexpr size_t kMaxReplicas = 512;

}  // namespace ember::router
