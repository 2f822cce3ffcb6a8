// Every bound of the data plane in one place. Full means "busy", at once; larger means "invalid".
#pragma once

#include <cstddef>
#include <cstdint>

namespace ember::wire {

inline constexpr size_t kMaxMetaBytes = 4 << 20;           // a frame's message part
inline constexpr size_t kMaxHelloBytes = 4 << 10;          // before the peer has said who it is
inline constexpr uint64_t kMaxPayloadBytes = 64ull << 20;  // a segment's bytes
inline constexpr size_t kMaxKeysPerBatch = 4096;           // keys of a match or get
inline constexpr size_t kMaxReservePerBatch = 1024;        // segments of one reserve
inline constexpr size_t kMaxMembers = 1024;                // of a view
inline constexpr size_t kMaxNameBytes = 256;
inline constexpr size_t kMaxShards = 256;         // of a node
inline constexpr size_t kMaxMessageBytes = 1024;  // of an error's text
inline constexpr size_t kMaxConnections = 1024;   // a node's data connections
inline constexpr size_t kMaxAttempts = 4096;      // open two-phase puts of a node
inline constexpr size_t kMaxLeases = 65536;       // of a node
inline constexpr uint32_t kMaxLeaseMs = 60'000;
inline constexpr uint32_t kAttemptDeadlineMs = 30'000;  // reserve to commit

}  // namespace ember::wire
