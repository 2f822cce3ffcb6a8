// UnnamedBlocks: blocks that one holder is known to have and nobody can name, for what comes before
// them was never told, or is not known any more. While there are some, what is known of the holder
// is not all that it has.
//
// A plain value; one thread.
#pragma once

#include <span>
#include <unordered_set>

#include "router/index/engine_key.h"

namespace ember::router {

class UnnamedBlocks {
 public:
  void Add(std::span<const EngineKey> keys);
  // There are more, and nobody knows which: until Clear.
  void AddUnknown() { unknown_ = true; }
  // They were removed, or told in a way that names them.
  void Erase(std::span<const EngineKey> keys);
  void Clear();
  bool empty() const { return keys_.empty() && !unknown_; }

 private:
  std::unordered_set<EngineKey> keys_;
  bool unknown_ = false;
};

}  // namespace ember::router
