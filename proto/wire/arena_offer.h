// ArenaOffer: what a node says on its unix socket when it hands a shard's memory to a reader on the
// same host. One SOCK_SEQPACKET message, with the memory's descriptor beside it (SCM_RIGHTS); then
// the node closes. The reader sends nothing.
//
//   u32 magic "EMBA" | u16 format, 1 | u16 zero | u64 incarnation | u32 shard | u64 capacity |
//   u64 XXH3-64 of the 28 bytes before (little-endian)
#pragma once

#include <cstdint>
#include <string>

#include "proto/base/bytes.h"

namespace ember::wire {

struct ArenaOffer {
  uint64_t incarnation = 0;  // the node's, as in its hello
  uint32_t shard = 0;
  uint64_t capacity = 0;  // bytes of the memory
  bool operator==(const ArenaOffer&) const = default;
};

inline constexpr size_t kArenaOfferBytes = 36;

Bytes Encode(const ArenaOffer&);
// kInvalid when it is anything else, kMismatch when it is of another format.
Result<ArenaOffer> DecodeArenaOffer(ByteSpan bytes);

// The socket's name within its folder. A reader connects to nothing of another name, so that a
// hello from outside can't send it to other programs' sockets.
std::string ArenaSocketName(std::string_view node_id, uint32_t shard);

}  // namespace ember::wire
