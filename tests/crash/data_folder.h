// DataFolder: a node's data directory as a test sees it from outside: what it takes, what has no
// business there, and how to harm it. Between two processes only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/random.h"

namespace ember::testing {

class DataFolder {
 public:
  explicit DataFolder(std::string path) : path_(std::move(path)) {}

  struct Use {
    uint64_t region_bytes = 0;  // of all region files
    uint64_t regions = 0;
    uint64_t other_bytes = 0;
    std::vector<std::string> strangers;  // files of no known kind
  };
  Use Measure() const;

  void DeleteCatalog() const;
  // Flips bytes of, cuts, or removes one of its files. False when there is none.
  bool DamageCatalog(RandomSource* random) const;

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

}  // namespace ember::testing
