#include "kvstore/engine/eviction_policy.h"

#include "kvstore/engine/chain_policy.h"
#include "kvstore/engine/lru_policy.h"
#include "kvstore/engine/s3_fifo_policy.h"

namespace ember::kv {

std::vector<std::string_view> EvictionPolicyNames() { return {"lru", "s3fifo", "chain"}; }

std::unique_ptr<EvictionPolicy> MakeEvictionPolicy(std::string_view name, uint64_t memory_bytes) {
  if (name == "lru") return std::make_unique<LruPolicy>();
  if (name == "s3fifo") return std::make_unique<S3FifoPolicy>(memory_bytes);
  if (name == "chain") return std::make_unique<ChainPolicy>(memory_bytes);
  return nullptr;
}

}  // namespace ember::kv
