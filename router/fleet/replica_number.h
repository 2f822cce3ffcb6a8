// ReplicaNumber: a replica's place in the ReplicaSet.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>

namespace ember::router {

using ReplicaNumber = uint32_t;
inline constexpr size_t kMaxReplicas = 512;
// Members of the ReplicaSet, by number.
using MemberSet = std::bitset<kMaxReplicas>;

}  // namespace ember::router
