#include "kvstore/disk/disk_options.h"

#include <algorithm>

#include "kvstore/disk/region_footer.h"

namespace ember::kv {
namespace {

constexpr uint64_t kMinRegionBytes = 1 << 20;
constexpr uint64_t kFewRegions = 8;

}  // namespace

Result<WritePolicy> ParseWritePolicy(std::string_view text) {
  if (text == "through") return WritePolicy::kThrough;
  if (text == "second-use") return WritePolicy::kSecondUse;
  if (text == "demotion") return WritePolicy::kDemotion;
  return InvalidError("\"" + std::string(text) + "\" is not through, second-use or demotion");
}

Result<uint64_t> RegionBytesFor(uint64_t capacity, uint64_t max_record_bytes) {
  // Header and trailer blocks, the record's head, and a footer that lists it.
  const uint64_t least = std::max(
      kMinRegionBytes, RoundUpToBlocks(max_record_bytes) + 3 * kBlockBytes + FooterBytes(1));
  if (capacity / 2 < least) {
    return InvalidError("less than two regions of " + std::to_string(least >> 20) +
                        " MiB; give it at least " + std::to_string((2 * least >> 20) + 1) + "MiB");
  }
  const uint64_t wanted = std::min(DiskOptions::kDefaultRegionBytes,
                                   capacity / kFewRegions / kBlockBytes * kBlockBytes);
  return std::max(least, wanted);
}

}  // namespace ember::kv
