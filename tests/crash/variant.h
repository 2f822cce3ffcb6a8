// Variant: the settings of a node that one data directory of the crash loop lives under.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ember::testing {

struct Variant {
  // What happens to catalog/ between two processes.
  enum class Catalog { kKept, kDeleted, kDamaged };

  std::string disk_write;  // --disk-write
  uint32_t shards = 1;
  std::string io;  // --io
  uint64_t memory_mib = 0;
  uint64_t disk_mib = 0;
  Catalog catalog = Catalog::kKept;

  static constexpr uint64_t kMaxSegmentBytes = 256 << 10;
  // Most that is put while nothing may be lost.
  uint64_t load_bytes() const { return (disk_mib << 20) / 5 * 2; }
  // The disk is smaller than what is put, so it evicts and no promise lasts.
  bool evicts = false;
  // Nothing leaves the memory of a process for lack of room.
  bool memory_keeps_all() const { return !evicts && memory_mib << 20 > 2 * load_bytes(); }

  std::vector<std::string> Flags(const std::string& directory) const {
    return {"--data=" + directory,
            "--disk=" + std::to_string(disk_mib) + "MiB",
            "--disk-write=" + disk_write,
            "--shards=" + std::to_string(shards),
            "--io=" + io,
            "--memory=" + std::to_string(memory_mib) + "MiB",
            "--max-segment=" + std::to_string(kMaxSegmentBytes >> 10) + "KiB",
            "--scrub-rate=64MiB"};
  }
  std::string ToString() const {
    static constexpr const char* kCatalogs[] = {"kept", "deleted", "damaged"};
    return "write=" + disk_write + " shards=" + std::to_string(shards) + " io=" + io +
           " memory=" + std::to_string(memory_mib) + "MiB disk=" + std::to_string(disk_mib) +
           "MiB" + (evicts ? " (evicting)" : "") +
           " catalog=" + kCatalogs[static_cast<size_t>(catalog)];
  }
  // The one of the n-th directory: every write policy, back end, shard count and treatment of the
  // catalog with each other within 36 directories, and the more different ones first.
  static Variant Of(uint64_t n) {
    static constexpr const char* kWrites[] = {"through", "second-use", "demotion"};
    Variant variant;
    variant.disk_write = kWrites[n % 3];
    variant.io = (n / 3 + n) % 2 == 0 ? "auto" : "epoll";
    variant.shards = (n / 2) % 2 == 0 ? 1 : 2;
    variant.catalog = static_cast<Catalog>((n / 4 + n) % 3);
    variant.evicts = n % 4 == 3;
    variant.disk_mib = variant.evicts ? 8 * variant.shards : n % 2 == 0 ? 64 : 128;
    variant.memory_mib = n % 5 < 3 ? 128 : 8;
    return variant;
  }
};

}  // namespace ember::testing
