// DiskFaults: how a SimDisk behaves and how often it lies, and what part of a node's data a lie
// hits.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "proto/base/bytes.h"
#include "proto/base/time.h"

namespace ember::sim {

enum class DiskFault {
  kReadError,         // EIO
  kWriteError,        // EIO, and any sectors of it are written
  kSyncError,         // EIO, and some of what wasn't durable never will be
  kNoSpace,           // though there is some
  kTornWrite,         // reported done, but ends in the middle
  kLostWrite,         // reported done, and nothing is written
  kStaleRead,         // what was there before the last write
  kMisdirectedRead,   // what lies elsewhere in the file
  kMisdirectedWrite,  // reported done, and written elsewhere in the file
  kBitFlip,           // of what is stored
  kSlow,
};
inline constexpr size_t kDiskFaultCount = 11;

// What lies at a place, for counting and for choosing what is hit.
enum class DiskTarget {
  kOther,
  kValue,
  kSegmentHeader,
  kRecordHead,
  kRegionHeader,
  kRegionFooter,
  kCatalog,
  kJournal,
  kIdentity,
};
inline constexpr size_t kDiskTargetCount = 9;

// Knows what lies where. The default knows nothing.
class DiskMap {
 public:
  virtual ~DiskMap() = default;
  // Told of every write, before it is done.
  virtual void Written(const std::string& /*path*/, uint64_t /*offset*/, ByteSpan /*bytes*/) {}
  virtual DiskTarget At(const std::string& /*path*/, uint64_t /*offset*/) {
    return DiskTarget::kOther;
  }
};

struct DiskFaults {
  uint64_t capacity = 1ull << 40;
  Duration latency_min = microseconds(20);
  Duration latency_max = microseconds(300);
  Duration slow_max = seconds(3);
  // Probability of each fault, for each operation that can suffer it.
  std::array<double, kDiskFaultCount> rate{};
  double& operator[](DiskFault fault) { return rate[static_cast<size_t>(fault)]; }
  // Targets that are left alone.
  std::array<bool, kDiskTargetCount> spared{};
  void Spare(DiskTarget target) { spared[static_cast<size_t>(target)] = true; }
};

// How many were injected; only those that changed something.
struct DiskFaultCount {
  std::map<std::pair<DiskFault, DiskTarget>, uint64_t> of;

  void Add(DiskFault fault, DiskTarget target) { ++of[{fault, target}]; }
  DiskFaultCount& operator+=(const DiskFaultCount& more) {
    for (const auto& [what, n] : more.of) of[what] += n;
    return *this;
  }
  uint64_t total() const;
  uint64_t Of(DiskFault fault) const;
  uint64_t Of(DiskTarget target) const;
  uint64_t Of(DiskFault fault, DiskTarget target) const {
    const auto it = of.find({fault, target});
    return it == of.end() ? 0 : it->second;
  }
};

}  // namespace ember::sim
