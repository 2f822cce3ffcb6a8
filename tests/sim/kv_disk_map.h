// KvDiskMap: what of a node's data lies where on a simulated disk: learned from what the node
// writes, with the product's own decoders.
#pragma once

#include <map>
#include <string>

#include "tests/sim/disk_faults.h"

namespace ember::sim {

class KvDiskMap final : public DiskMap {
 public:
  void Written(const std::string& path, uint64_t offset, ByteSpan bytes) override;
  DiskTarget At(const std::string& path, uint64_t offset) override;

 private:
  struct Piece {
    uint64_t end;
    DiskTarget target;
  };
  using Pieces = std::map<uint64_t, Piece>;  // by offset

  static void Set(Pieces* pieces, uint64_t begin, uint64_t end, DiskTarget target);

  std::map<std::string, Pieces> files_;  // region files only
};

}  // namespace ember::sim
