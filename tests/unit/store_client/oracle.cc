#include "tests/unit/store_client/oracle.h"

#include "proto/base/random.h"

namespace ember::testing {
namespace {

constexpr uint32_t kTokensPerBlock = 64;  // a block is a segment

KvNamespace TestNamespace(const std::string& salt) {
  KvNamespace ns;
  ns.salt = salt;
  ns.engine = "test";
  ns.layout = {.tokens_per_block = kTokensPerBlock,
               .layers = 1,
               .kv_heads = 1,
               .head_size = 1,
               .key_type = "u8",
               .value_type = "u8",
               .order = "test"};
  return ns;
}

}  // namespace

Oracle::Oracle(uint32_t seed, size_t segments, size_t payload_bytes, const std::string& salt)
    : payload_bytes_(payload_bytes), tokens_(segments * kTokensPerBlock) {
  const KvNamespace ns = TestNamespace(salt);
  const NamespaceRoot root = RootOf(ns);
  ns_ = root.id;
  layout_ = DigestOf(ns.layout);
  SeededRandom random(seed);
  for (TokenId& token : tokens_) token = static_cast<TokenId>(random.Next() & 0xffff);
  HashChain chain(root, kTokensPerBlock);
  chain.Append(tokens_);
  refs_ = CutSegments(chain);
}

std::span<const TokenId> Oracle::tokens(size_t i) const {
  return std::span(tokens_).subspan(i * kTokensPerBlock, kTokensPerBlock);
}

Bytes Oracle::Payload(const BlockKey& key, size_t bytes) {
  SeededRandom random(std::hash<BlockKey>()(key));
  Bytes out(bytes + 7);
  for (size_t i = 0; i < bytes; i += 8) {
    const uint64_t word = random.Next();
    std::memcpy(out.data() + i, &word, sizeof word);
  }
  out.resize(bytes);
  return out;
}

std::vector<PutOutcome> Oracle::Put(StoreClient& client, Duration timeout,
                                    const PutOptions& options) const {
  std::vector<Bytes> payloads;
  std::vector<PutRequest> requests;
  for (const SegmentRef& ref : refs_) payloads.push_back(Payload(ref.key, payload_bytes_));
  for (size_t i = 0; i < size(); ++i) {
    requests.push_back({refs_[i], tokens(i), payloads[i], {}});
  }
  return client.Put(requests, layout_, timeout, options);
}

Oracle::Load Oracle::GetFrom(StoreClient& client, size_t first, Duration timeout) const {
  Load load;
  load.buffers.assign(size() - first, Bytes(payload_bytes_));
  std::vector<GetRequest> requests;
  for (size_t i = first; i < size(); ++i) {
    requests.push_back({refs_[i], tokens(i), load.buffers[i - first]});
  }
  load.result = client.Get(requests, layout_, timeout);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (load.result.misses[i] != MissReason::kNone) continue;
    const BlockKey& key = requests[i].ref.key;
    const bool right =
        load.buffers[i] == Payload(key, payload_bytes_) && load.result.headers[i].key == key;
    if (!right) ++load.wrong;
  }
  return load;
}

}  // namespace ember::testing
