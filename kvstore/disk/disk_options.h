// DiskOptions: the settings of one shard's disk tier.
#pragma once

#include <string>

#include "kvstore/disk/identity.h"
#include "proto/base/time.h"

namespace ember::kv {

// When a segment in memory is also written to disk. Whatever the policy, a put that asks for the
// level `disk` is written at once, and an orderly stop writes all that is left.
enum class WritePolicy {
  kThrough,    // when it is put
  kSecondUse,  // when it is used for the first time after it was put
  kDemotion,   // shortly before it would leave memory
};
// "through", "second-use", "demotion".
Result<WritePolicy> ParseWritePolicy(std::string_view text);

struct DiskOptions {
  static constexpr uint64_t kDefaultRegionBytes = 256ull << 20;

  std::string directory;  // of the node
  Identity identity;
  uint32_t shard = 0;
  uint64_t capacity_bytes = 0;  // of this shard's region files together
  // Of each new region file, a multiple of 4 KiB; see RegionBytesFor.
  uint64_t region_bytes = kDefaultRegionBytes;
  WritePolicy policy = WritePolicy::kThrough;
  // Segments listed, at about 104 bytes of memory each; above it regions are evicted early. 0: a
  // quarter of the shard's segment memory is added for the list, at least for 64 Ki segments.
  size_t max_segments = 0;

  // Segments that wait to be written without anybody waiting for them; more are left out.
  uint64_t max_queue_bytes = 1ull << 30;
  // Started at once: writes, and reads into memory.
  size_t max_writes = 8;
  uint64_t max_write_bytes = 32ull << 20;
  size_t max_reads = 64;
  uint64_t max_read_bytes = 64ull << 20;
  // Written data is synced after so long when nobody waits for it.
  Duration sync_interval = seconds(1);
  // How often a disk that refuses writes is tried again.
  Duration retry_interval = seconds(2);
  uint64_t scrub_bytes_per_second = 16ull << 20;  // 0: no scrubbing
  Duration scrub_interval = seconds(60);          // from the start of a pass to the next, at least
  uint64_t min_free_bytes = 256ull << 20;         // at most 1 % of the file system
};

// The size of regions for a shard that may use `capacity` bytes and takes records of up to
// `max_record_bytes`: 256 MiB, less when there would be fewer than eight, never too small for one
// record. kInvalid, with the least capacity, when there would be fewer than two.
Result<uint64_t> RegionBytesFor(uint64_t capacity, uint64_t max_record_bytes);

}  // namespace ember::kv
