// Who may hold a block. A holder is one replica (or one of its data-parallel ranks) or one store
// node; PrefixIndex gives out the numbers. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ember::router {

using HolderId = uint16_t;
inline constexpr HolderId kNoHolder = 0xffff;
inline constexpr size_t kMaxHolders = 1024;

enum class HolderKind : uint8_t {
  kReplica,    // matched alone: a prefix counts where one replica has all of it
  kStoreNode,  // matched together: a chain is spread over the nodes
};

// Where in a holder a block lies. One block may lie in several tiers.
enum class HolderTier : uint8_t { kDevice = 0, kHost = 1, kDisk = 2 };

// Blocks of one holder. One that lies in several tiers counts in each of them.
struct HeldCount {
  uint32_t any = 0;
  uint32_t device = 0;  // what is presumed included
  uint32_t host = 0;
  uint32_t disk = 0;
};

}  // namespace ember::router
