// SimInode: the content of one simulated file: what readers see, and what would be left of it after
// a loss of power.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "proto/base/bytes.h"
#include "tests/sim/dice.h"

namespace ember::sim {

inline constexpr size_t kPageBytes = 4096;
inline constexpr size_t kSectorBytes = 512;  // what a disk writes at once or not at all

class SimInode {
 public:
  // Both within size(); the caller sees to it.
  void Read(uint64_t offset, MutableByteSpan out) const;
  // As Read, but what was there before the last write of each page. False when that is the same.
  bool ReadStale(uint64_t offset, MutableByteSpan out) const;
  // Grows the file as needed; not durable until Sync.
  void Write(uint64_t offset, ByteSpan bytes);
  // Of the page that holds this byte, one bit; in every copy that there is.
  void FlipBit(uint64_t offset, uint8_t bit);
  void Truncate(uint64_t length);
  void Reserve(uint64_t length);

  // What a sync that begins now must make durable.
  struct Snapshot;
  Snapshot BeginSync() const;
  // All of that is durable now, but for pages that were doomed.
  void Sync(const Snapshot& snapshot);
  // A sync failed: the writes that it should have made durable are forgotten, each by chance. They
  // stay readable until the power is lost.
  void DoomSome(Dice& dice);
  // Loses power: of each page that isn't durable all, some sectors or nothing survives.
  // `survival` is the chance of each choice to be for the new content.
  void LosePower(Dice& dice, double survival);

  uint64_t size() const { return size_; }
  uint64_t pages_in_use() const;
  // Pages that `bytes` at `offset` would add to those in use.
  uint64_t PagesToAdd(uint64_t offset, uint64_t bytes) const;

  // Of names and of open files; nothing of it is in use without either.
  int users = 0;

 private:
  using Block = std::array<std::byte, kPageBytes>;
  using BlockPtr = std::shared_ptr<const Block>;  // null: zeros
  struct Page {
    BlockPtr now;
    BlockPtr before;   // the last write
    BlockPtr durable;  // while dirty
    bool dirty = false;
    bool doomed = false;
  };

  static const Block& ContentOf(const BlockPtr& block);
  void Set(uint64_t index, BlockPtr block);
  template <typename Choose>
  void ReadWith(uint64_t offset, MutableByteSpan out, Choose choose) const;
  static BlockPtr Mix(const BlockPtr& old_block, const BlockPtr& new_block, Dice& dice,
                      double survival);

  std::map<uint64_t, Page> pages_;
  std::set<uint64_t> dirty_;
  uint64_t size_ = 0;
  uint64_t durable_size_ = 0;
  uint64_t reserved_pages_ = 0;
};

struct SimInode::Snapshot {
  uint64_t size = 0;
  std::vector<std::pair<uint64_t, BlockPtr>> pages;
};

}  // namespace ember::sim
