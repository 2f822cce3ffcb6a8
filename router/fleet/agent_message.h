// What an agent's messages mean, checked. Pure functions, any thread.
#pragma once

#include <string_view>

#include "proto/rpc/agent.pb.h"
#include "router/fleet/agent_event.h"

namespace ember::router {

// kInvalid: not a whole number of hashes, or more than a prompt can have.
Result<BlockChain> ReadChain(std::string_view bytes);
Result<HeldChain> ReadHeld(const rpc::HeldPrefix& message);
// Nothing when empty; kInvalid for any length but 16.
Result<std::optional<NamespaceId>> ReadNamespace(std::string_view bytes);
// What is no finite, positive number counts as not known.
AgentReport ReadReport(const rpc::ReplicaReport& message);
Result<AgentSnapshot> ReadSnapshot(const rpc::Snapshot& message);

}  // namespace ember::router
