// MissReason: why a lookup found nothing. A miss is a value, not an error.
#pragma once

#include <cstdint>
#include <string_view>

namespace ember {

enum class MissReason : uint8_t {
  kNone = 0,         // present
  kNeverStored = 1,  // or so long ago that it is forgotten
  kEvicted = 2,
  kLostNode = 3,  // every owner is down, or came back empty
  kDeadline = 4,  // no owner answered in time
  kLayoutDiffers = 5,
  kOtherSalt = 6,  // proof or tokens differ
  kPurged = 7,
  kCorrupt = 8,   // the bytes did not match their checksum; the copy is dropped
  kBusy = 9,      // the owner refused for load
  kExpired = 10,  // its time to live was over
};
inline constexpr size_t kMissReasonCount = 11;

// "never_stored" etc., as in metrics and replies.
std::string_view MissReasonName(MissReason reason);
// The reason for a number from the wire; anything unknown becomes kNeverStored.
MissReason MissReasonFromWire(uint8_t value);

}  // namespace ember
