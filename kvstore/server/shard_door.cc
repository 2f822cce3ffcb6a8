#include "kvstore/server/shard_door.h"

#include "client/cluster/placement.h"

namespace ember::kv {

const ShardDoor& DoorOf(std::span<const ShardDoor> shards, const NamespaceId& ns,
                        const BlockHash& placement) {
  return shards[cluster::ShardOf(ns, placement, shards.size())];
}

}  // namespace ember::kv
