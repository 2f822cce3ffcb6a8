#include "proto/model/block_hash.h"

#include "proto/base/checksum.h"

namespace ember {
namespace {

void PutTokens(std::span<const TokenId> tokens, ByteWriter* w) {
  w->Put(static_cast<uint32_t>(tokens.size()));
  w->PutRaw(std::as_bytes(tokens));
}

void PutExtra(const TokenExtra& extra, ByteWriter* w) {
  w->Put(extra.kind);
  w->Put(extra.offset);
  w->PutSized(extra.digest);
}

void PutBody(std::span<const TokenId> tokens, uint64_t first_token,
             std::span<const TokenExtra> extras, ByteWriter* w) {
  PutTokens(tokens, w);
  std::vector<const TokenExtra*> inside;
  for (const TokenExtra& e : extras) {
    if (e.offset >= first_token && e.offset < first_token + tokens.size()) inside.push_back(&e);
  }
  w->Put(static_cast<uint32_t>(inside.size()));
  for (const TokenExtra* e : inside) PutExtra(*e, w);
}

}  // namespace

BlockHash NextBlockHash(uint64_t seed, ByteSpan parent16, std::span<const TokenId> block,
                        std::span<const TokenExtra> extras) {
  constexpr size_t kUsualTokens = 128;
  const auto count = static_cast<uint32_t>(block.size());
  const size_t length = parent16.size() + sizeof count + block.size_bytes() + sizeof(uint32_t);
  std::array<std::byte, 16 + 4 + kUsualTokens * sizeof(TokenId) + 4> usual{};
  if (length <= usual.size() && extras.empty()) {
    // The hot path: millions of blocks a second are named here.
    std::byte* p = usual.data();
    std::memcpy(p, parent16.data(), parent16.size());
    std::memcpy(p += parent16.size(), &count, sizeof count);
    std::memcpy(p + sizeof count, block.data(), block.size_bytes());
    return {Xxh3Of(ByteSpan(usual).first(length), seed)};
  }
  Bytes message(parent16.begin(), parent16.end());
  ByteWriter w(&message);
  PutTokens(block, &w);
  w.Put(static_cast<uint32_t>(extras.size()));
  for (const TokenExtra& e : extras) PutExtra(e, &w);
  return {Xxh3Of(message, seed)};
}

std::vector<BlockHash> HashBlocks(const NamespaceId& id, uint64_t seed, uint32_t tokens_per_block,
                                  std::span<const TokenId> tokens,
                                  std::span<const TokenExtra> extras) {
  EMBER_CHECK(tokens_per_block > 0, "a block holds tokens");
  std::vector<BlockHash> hashes(tokens.size() / tokens_per_block);
  ByteSpan parent = id.bytes;
  std::vector<TokenExtra> inside;
  for (size_t i = 0; i < hashes.size(); ++i) {
    const uint64_t first = uint64_t{i} * tokens_per_block;
    inside.clear();
    for (const TokenExtra& e : extras) {
      if (e.offset >= first && e.offset < first + tokens_per_block) inside.push_back(e);
    }
    hashes[i] = NextBlockHash(seed, parent, tokens.subspan(first, tokens_per_block), inside);
    parent = hashes[i].bytes;
  }
  return hashes;
}

std::string BlockKey::ToString() const { return ToHex(ns.bytes) + ToHex(hash.bytes); }

size_t HashChain::Append(std::span<const TokenId> tokens, std::span<const TokenExtra> extras) {
  BlockHash hash{root_.id.bytes};
  ChainProof proof = root_.proof;
  if (!blocks_.empty()) {
    hash = blocks_.back().hash;
    proof = blocks_.back().proof;
  }
  size_t taken = 0;
  Bytes message;
  for (; tokens.size() - taken >= tokens_per_block_; taken += tokens_per_block_) {
    // The proof's parent comes first and the hash's 16 bytes take the end of that same room, so the
    // body is laid down once for both.
    message.assign(proof.begin(), proof.end());
    ByteWriter w(&message);
    PutBody(tokens.subspan(taken, tokens_per_block_), uint64_t{blocks_.size()} * tokens_per_block_,
            extras, &w);
    proof = Sha256(message);
    std::memcpy(message.data() + 16, hash.bytes.data(), hash.bytes.size());
    hash.bytes = Xxh3Of(ByteSpan(message).subspan(16), root_.seed);
    blocks_.push_back({hash, proof});
  }
  return taken;
}

}  // namespace ember
