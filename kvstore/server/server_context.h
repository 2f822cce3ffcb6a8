// ServerContext: what all connections of one data server share. The loop's thread only.
#pragma once

#include "client/io/loop.h"
#include "kvstore/disk/disk_tier.h"
#include "kvstore/engine/shard_engine.h"
#include "kvstore/server/data_server_options.h"
#include "kvstore/server/server_metrics.h"

namespace ember::kv {

struct ServerContext {
  io::Loop* loop = nullptr;
  ShardEngine* engine = nullptr;
  ServerMetrics* metrics = nullptr;
  DataServerOptions options;
  DiskTier* disk = nullptr;  // null: memory only
  std::vector<uint16_t> shard_ports = {};
  size_t large_message_bytes = 0;  // held now; see max_large_message_bytes
};

}  // namespace ember::kv
