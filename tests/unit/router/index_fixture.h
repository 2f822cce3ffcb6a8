// What the tests of the index share: chains by number, and engines' names of their blocks.
#pragma once

#include <cstring>
#include <optional>
#include <vector>

#include "proto/base/random.h"
#include "router/index/prefix_index.h"

namespace ember::router {

constexpr PrefixIndexOptions kRoomyIndex{.max_bytes = 64 << 20, .seed = 7};
constexpr PrefixIndexOptions kSmallIndex{.max_bytes = 1 << 20, .seed = 7};

inline BlockHash HashOfWords(uint64_t a, uint64_t b) {
  const uint64_t words[] = {a, b};
  BlockHash hash;
  std::memcpy(hash.bytes.data(), words, sizeof words);
  return hash;
}

// A chain of random blocks, the same for the same number; its first blocks are those of any shorter
// one of that number.
inline BlockChain NumberedChain(uint64_t number, size_t blocks) {
  SeededRandom random(number * 7919 + 1);
  BlockChain chain(blocks);
  for (BlockHash& h : chain) {
    const uint64_t a = random.Next();
    h = HashOfWords(a, random.Next());
  }
  return chain;
}

// `trunk`, and behind it blocks of its own branch.
inline BlockChain Branch(const BlockChain& trunk, uint64_t number, size_t blocks) {
  BlockChain chain = trunk;
  uint64_t of_trunk = 0;
  if (!trunk.empty()) std::memcpy(&of_trunk, trunk.back().bytes.data(), sizeof of_trunk);
  for (const BlockHash& h : NumberedChain(of_trunk ^ number, blocks)) chain.push_back(h);
  return chain;
}

// What an engine calls the block: engines of equal `dialect` alike.
inline EngineKey KeyOf(const BlockHash& hash, uint64_t dialect = 0) {
  uint64_t key;
  std::memcpy(&key, hash.bytes.data(), sizeof key);
  return EngineKey{key ^ dialect * 0x9e3779b97f4a7c15ULL};
}

inline std::vector<EngineKey> KeysOf(const BlockChain& chain, uint64_t dialect = 0) {
  std::vector<EngineKey> keys;
  for (const BlockHash& h : chain) keys.push_back(KeyOf(h, dialect));
  return keys;
}

inline void StoreChain(PrefixIndex& index, HolderId holder, const BlockChain& chain,
                       HolderTier tier = HolderTier::kDevice, uint64_t dialect = 0) {
  index.Store(holder, tier, std::nullopt, KeysOf(chain, dialect), chain);
}

inline void RemoveChain(PrefixIndex& index, HolderId holder, const BlockChain& chain,
                        HolderTier tier = HolderTier::kDevice, uint64_t dialect = 0) {
  index.Remove(holder, tier, KeysOf(chain, dialect));
}

inline void AddReplicas(PrefixIndex& index, int n, HolderId first = 0) {
  for (int i = 0; i < n; ++i) {
    if (index.AddHolder(HolderKind::kReplica) != first + i) std::abort();
  }
}

}  // namespace ember::router
