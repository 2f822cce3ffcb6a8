// BlockCache: a prefix cache as engines have it: whole blocks, least recently used goes first, a
// chain's end before its start. One thread.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>

namespace ember::sim {

class BlockCache {
 public:
  explicit BlockCache(size_t capacity) : capacity_(capacity) {}

  // Blocks held unbroken from the start of the chain.
  size_t Match(std::span<const uint64_t> chain) const;
  bool Holds(uint64_t block) const { return entries_.contains(block); }
  void Insert(std::span<const uint64_t> chain);
  void Clear();
  size_t size() const { return entries_.size(); }
  size_t capacity() const { return capacity_; }

 private:
  const size_t capacity_;
  std::list<uint64_t> use_;  // most recent first
  std::unordered_map<uint64_t, std::list<uint64_t>::iterator> entries_;
};

}  // namespace ember::sim
