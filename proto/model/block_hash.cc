#include "proto/model/block_hash.h"

#include "proto/base/checksum.h"

namespace ember {
namespace {

void PutBody(std::span<const TokenId> tokens, uint64_t first_token,
             std::span<const TokenExtra> extras, ByteWriter* w) {
  w->Put(static_cast<uint32_t>(tokens.size()));
  w->PutRaw(std::as_bytes(tokens));
  std::vector<const TokenExtra*> inside;
  for (const TokenExtra& e : extras) {
    if (e.offset >= first_token && e.offset < first_token + tokens.size()) inside.push_back(&e);
  }
  w->Put(static_cast<uint32_t>(inside.size()));
  for (const TokenExtra* e : inside) {
    w->Put(e->kind);
    w->Put(e->offset);
    w->PutSized(e->digest);
  }
}

}  // namespace

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
