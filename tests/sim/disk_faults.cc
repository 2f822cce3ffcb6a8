#include "tests/sim/disk_faults.h"

namespace ember::sim {
namespace {

constexpr std::array kFaultNames = {
    "read error", "write error",      "sync error",        "no space", "torn write", "lost write",
    "stale read", "misdirected read", "misdirected write", "bit flip", "slow"};
static_assert(kFaultNames.size() == kDiskFaultCount);
constexpr std::array kTargetNames = {"other",       "value",         "segment header",
                                     "record head", "region header", "region footer",
                                     "catalog",     "journal",       "identity"};
static_assert(kTargetNames.size() == kDiskTargetCount);

}  // namespace

uint64_t DiskFaultCount::total() const {
  uint64_t sum = 0;
  for (const auto& [what, n] : of) sum += n;
  return sum;
}

uint64_t DiskFaultCount::Of(DiskFault fault) const {
  uint64_t sum = 0;
  for (const auto& [what, n] : of) sum += what.first == fault ? n : 0;
  return sum;
}

uint64_t DiskFaultCount::Of(DiskTarget target) const {
  uint64_t sum = 0;
  for (const auto& [what, n] : of) sum += what.second == target ? n : 0;
  return sum;
}

std::string DiskFaultCount::ToString() const {
  std::string text = std::to_string(total()) + " disk faults:";
  for (size_t i = 0; i < kDiskFaultCount; ++i) {
    const uint64_t n = Of(static_cast<DiskFault>(i));
    if (n > 0) text += " " + std::string(kFaultNames[i]) + " " + std::to_string(n) + ",";
  }
  text += " on";
  for (size_t i = 0; i < kDiskTargetCount; ++i) {
    const uint64_t n = Of(static_cast<DiskTarget>(i));
    if (n > 0) text += " " + std::string(kTargetNames[i]) + " " + std::to_string(n) + ",";
  }
  text.pop_back();
  return text;
}

}  // namespace ember::sim
