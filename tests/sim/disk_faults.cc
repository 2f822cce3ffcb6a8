#include "tests/sim/disk_faults.h"

namespace ember::sim {

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

}  // namespace ember::sim
