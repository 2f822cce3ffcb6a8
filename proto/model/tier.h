// Tier: where a store node keeps a copy. AckLevel: what a put's acknowledgement promises.
#pragma once

#include <cstdint>
#include <string_view>

namespace ember {

enum class Tier : uint8_t { kMemory = 0, kDisk = 1 };
inline constexpr size_t kTierCount = 2;

// "memory", "disk": in metrics and replies.
constexpr std::string_view TierName(Tier tier) { return tier == Tier::kDisk ? "disk" : "memory"; }
// Anything unknown becomes kDisk, of which a reader expects less.
constexpr Tier TierFromWire(uint8_t value) { return value == 0 ? Tier::kMemory : Tier::kDisk; }

// What one node says with its acknowledgement; the next level contains the one before.
enum class AckLevel : uint8_t {
  kMemory = 0,  // in this node's memory: survives nothing of this node, only of others
  kDisk = 1,    // on this node's disk, synced: survives the process and power loss
};

// Anything unknown becomes kMemory: never promise more than was said.
constexpr AckLevel AckLevelFromWire(uint8_t value) {
  return value == 1 ? AckLevel::kDisk : AckLevel::kMemory;
}

}  // namespace ember
