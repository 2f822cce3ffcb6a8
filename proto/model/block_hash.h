// BlockHash names a block; HashChain is the prefix as the chain of its blocks' hashes and proofs.
//
// For block i with parent p (the namespace id before the first):
//   body  = u32 token count, i32 tokens, u32 extra count, extras (u8 kind, u32 offset, u32 length,
//   bytes) hash  = XXH3-128(p.hash  || body), seeded by the namespace's secret, canonical byte
//   order proof = SHA-256 (p.proof || body)
// Only whole blocks are hashed. The chain is computed by our own code from tokens and identity, so
// no engine's hash setting can split or merge it.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/model/kv_namespace.h"

namespace ember {

using TokenId = int32_t;

struct BlockHash {
  std::array<std::byte, 16> bytes{};
  auto operator<=>(const BlockHash&) const = default;
  // Not the default one, which compares byte by byte.
  bool operator==(const BlockHash& other) const {
    return std::memcmp(bytes.data(), other.bytes.data(), bytes.size()) == 0;
  }
};

using ChainProof = Sha256Digest;

// The name of bytes, for ever.
struct BlockKey {
  NamespaceId ns;
  BlockHash hash;
  auto operator<=>(const BlockKey&) const = default;
  std::string ToString() const;  // 64 hex digits
};

// Something other than a token id that a block's KV depends on: an image's digest at a token
// offset.
struct TokenExtra {
  uint8_t kind = 0;     // 1 = multimodal content digest, 2 = prompt embeddings digest
  uint32_t offset = 0;  // token position in the prompt
  Bytes digest;
};

struct ChainBlock {
  BlockHash hash;
  ChainProof proof{};
};

class HashChain {
 public:
  HashChain(const NamespaceRoot& root, uint32_t tokens_per_block)
      : root_(root), tokens_per_block_(tokens_per_block) {
    EMBER_CHECK(tokens_per_block > 0, "a block holds tokens");
  }

  // Appends the whole blocks of `tokens`, which continue the chain; a last partial block is left
  // out. `extras` offsets are relative to the start of the whole chain. Returns tokens taken.
  size_t Append(std::span<const TokenId> tokens, std::span<const TokenExtra> extras = {});

  const std::vector<ChainBlock>& blocks() const { return blocks_; }
  BlockKey key(size_t block) const { return {root_.id, blocks_.at(block).hash}; }
  const NamespaceRoot& root() const { return root_; }
  uint32_t tokens_per_block() const { return tokens_per_block_; }

 private:
  NamespaceRoot root_;
  uint32_t tokens_per_block_;
  std::vector<ChainBlock> blocks_;
};

// The hash of one whole block after a parent's 16 bytes (the namespace id before the first), for
// those who need no proof: a twentieth of HashChain's cost. `extras`: those inside the block.
BlockHash NextBlockHash(uint64_t seed, ByteSpan parent16, std::span<const TokenId> block,
                        std::span<const TokenExtra> extras = {});

// The hashes of the whole blocks of `tokens`, equal to HashChain's from the same root; a last
// partial block is left out. `extras` offsets are relative to the start.
std::vector<BlockHash> HashBlocks(const NamespaceId& id, uint64_t seed, uint32_t tokens_per_block,
                                  std::span<const TokenId> tokens,
                                  std::span<const TokenExtra> extras = {});

}  // namespace ember

// The hashes are uniform already, so a table may use their first bytes.
template <>
struct std::hash<ember::BlockHash> {
  size_t operator()(const ember::BlockHash& h) const noexcept {
    size_t v;
    std::memcpy(&v, h.bytes.data(), sizeof v);
    return v;
  }
};
template <>
struct std::hash<ember::BlockKey> {
  size_t operator()(const ember::BlockKey& k) const noexcept {
    return std::hash<ember::BlockHash>()(k.hash) ^
           (std::hash<ember::NamespaceId>()(k.ns) * 0x9e3779b97f4a7c15ULL);
  }
};
