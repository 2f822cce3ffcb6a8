#include "router/fleet/agent_message.h"

#include <cmath>
#include <cstring>

namespace ember::router {
namespace {

constexpr size_t kMaxChainBlocks = 1u << 20;
constexpr size_t kMaxSlots = 1024;
constexpr size_t kMaxNameBytes = 256;
constexpr uint32_t kMaxBlockTokens = 1u << 16;

double Finite(double value, double otherwise) {
  return std::isfinite(value) && value > 0 && value < 1e9 ? value : otherwise;
}

}  // namespace

Result<BlockChain> ReadChain(std::string_view bytes) {
  if (bytes.size() % sizeof(BlockHash) != 0) {
    return InvalidError("block hashes are 16 bytes each");
  }
  if (bytes.size() / sizeof(BlockHash) > kMaxChainBlocks) {
    return InvalidError("more block hashes than a prompt can have");
  }
  BlockChain chain(bytes.size() / sizeof(BlockHash));
  if (!chain.empty()) std::memcpy(chain.data(), bytes.data(), bytes.size());
  return chain;
}

Result<HeldChain> ReadHeld(const rpc::HeldPrefix& message) {
  Result<BlockChain> chain = ReadChain(message.block_hashes());
  if (!chain.ok()) return chain.status();
  return HeldChain{.slot = message.slot(), .blocks = *std::move(chain)};
}

Result<std::optional<NamespaceId>> ReadNamespace(std::string_view bytes) {
  if (bytes.empty()) return std::optional<NamespaceId>();
  NamespaceId ns;
  if (bytes.size() != ns.bytes.size()) return InvalidError("a namespace id is 16 bytes");
  std::memcpy(ns.bytes.data(), bytes.data(), bytes.size());
  return std::optional<NamespaceId>(ns);
}

AgentReport ReadReport(const rpc::ReplicaReport& message) {
  const PrefillModel unknown;
  return {.healthy = message.healthy(),
          .load = {.slots_total = message.slots_total(),
                   .running = message.running(),
                   .waiting = message.waiting(),
                   .pending_prefill_tokens = message.pending_prefill_tokens()},
          .prefill = {.linear_ms = Finite(message.prefill_linear_ms(), unknown.linear_ms),
                      .context_ms = Finite(message.prefill_context_ms(), 0)},
          .load_tokens_per_ms = Finite(message.load_tokens_per_ms(), 0)};
}

Result<AgentSnapshot> ReadSnapshot(const rpc::Snapshot& message) {
  auto ns = ReadNamespace(message.namespace_id());
  if (!ns.ok()) return ns.status();
  if (static_cast<size_t>(message.held_size()) > kMaxSlots) return InvalidError("too many slots");
  if (message.replica_id().size() > kMaxNameBytes || message.model().size() > kMaxNameBytes) {
    return InvalidError("a name is too long");
  }
  if (message.tokens_per_block() > kMaxBlockTokens) return InvalidError("blocks are too large");
  AgentSnapshot snapshot{.replica_id = message.replica_id(),
                         .ns = *ns,
                         .namespace_seed = message.namespace_seed(),
                         .tokens_per_block = message.tokens_per_block(),
                         .held = {},
                         .report = ReadReport(message.report()),
                         .model = message.model()};
  for (const rpc::HeldPrefix& held : message.held()) {
    Result<HeldChain> chain = ReadHeld(held);
    if (!chain.ok()) return chain.status();
    snapshot.held.push_back(*std::move(chain));
  }
  return snapshot;
}

}  // namespace ember::router
