// The C ABI's chains: identity and tokens to segments.
#include <algorithm>

#include "client/bindings/c/call_guard.h"
#include "client/bindings/c/segment.h"
#include "proto/model/segment.h"

struct ember_chain {
  ember::HashChain chain;
  ember::LayoutDigest layout;
  std::vector<ember::SegmentRef> segments;  // of the whole chain so far
};

namespace ember::c {
namespace {

Sha256Digest DigestAt(const uint8_t* bytes) {
  Sha256Digest digest{};
  if (bytes != nullptr) std::memcpy(digest.data(), bytes, digest.size());
  return digest;
}

Result<KvNamespace> NamespaceOf(const ember_identity& in) {
  KvNamespace ns;
  ns.engine = Text(in.engine);
  ns.engine_version = Text(in.engine_version);
  ns.context_type = Text(in.context_type);
  ns.weights_digest = DigestAt(in.weights_digest);
  ns.tokenizer_digest = DigestAt(in.tokenizer_digest);
  ns.adapter_digest = DigestAt(in.adapter_digest);
  ns.tenant = Text(in.tenant);
  ns.salt = Text(in.salt);
  if (in.group < 0 || in.group > EMBER_GROUP_RECURRENT) {
    return InvalidError("identity: no such cache group");
  }
  ns.layout = {.tokens_per_block = in.tokens_per_block,
               .layers = in.layers,
               .kv_heads = in.kv_heads,
               .head_size = in.head_size,
               .key_type = Text(in.key_type),
               .value_type = Text(in.value_type),
               .order = Text(in.order),
               .group = in.group == 0 ? CacheGroup::kFull : static_cast<CacheGroup>(in.group),
               .rank = in.rank,
               .rank_count = in.rank_count == 0 ? 1 : in.rank_count};
  const Status status = Validate(ns.layout);
  if (!status.ok()) return status.WithContext("identity");
  return ns;
}

}  // namespace
}  // namespace ember::c

using ember::InvalidError;
using ember::OkStatus;
using ember::Status;
using ember::c::Guarded;

ember_code ember_chain_create(const ember_identity* identity, ember_chain** out) {
  return Guarded([&]() -> Status {
    if (identity == nullptr || out == nullptr) return InvalidError("a null pointer");
    *out = nullptr;
    ember::Result<ember::KvNamespace> ns = ember::c::NamespaceOf(*identity);
    if (!ns.ok()) return ns.status();
    *out = new ember_chain{ember::HashChain(ember::RootOf(*ns), ns->layout.tokens_per_block),
                           ember::DigestOf(ns->layout),
                           {}};
    return OkStatus();
  });
}

void ember_chain_destroy(ember_chain* chain) { delete chain; }

ember_code ember_chain_append(ember_chain* chain, const int32_t* tokens, size_t count,
                              size_t* taken) {
  return Guarded([&]() -> Status {
    if (chain == nullptr || (tokens == nullptr && count > 0)) {
      return InvalidError("a null pointer");
    }
    const size_t n = chain->chain.Append({tokens, count});
    chain->segments = ember::CutSegments(chain->chain);
    if (taken != nullptr) *taken = n;
    return OkStatus();
  });
}

size_t ember_chain_segment_count(const ember_chain* chain) {
  return chain == nullptr ? 0 : chain->segments.size();
}

ember_code ember_chain_segments(const ember_chain* chain, size_t first, size_t count,
                                ember_segment* out) {
  return Guarded([&]() -> Status {
    if (chain == nullptr || (out == nullptr && count > 0)) return InvalidError("a null pointer");
    const size_t size = chain->segments.size();
    if (first > size || count > size - first) {
      return InvalidError("the chain has " + std::to_string(size) + " whole segments");
    }
    for (size_t i = 0; i < count; ++i) out[i] = ember::c::FromRef(chain->segments[first + i]);
    return OkStatus();
  });
}

size_t ember_chain_tokens_per_segment(const ember_chain* chain) {
  if (chain == nullptr) return 0;
  const uint32_t per_block = chain->chain.tokens_per_block();
  return size_t{per_block} * ember::BlocksPerSegment(per_block);
}

void ember_chain_layout(const ember_chain* chain, uint8_t out[16]) {
  if (chain != nullptr && out != nullptr) {
    std::memcpy(out, chain->layout.data(), chain->layout.size());
  }
}
