// The feed and its requests as protobuf. What comes from outside is checked here. Pure functions.
#pragma once

#include <vector>

#include "kvstore/server/feed_cursor.h"
#include "proto/rpc/store.pb.h"

namespace ember::kv {

void ToProto(const FeedPiece& piece, uint32_t shard_count, rpc::FeedBatch* out);
// kInvalid: more positions than a node can have shards.
Result<std::vector<FeedPosition>> FromProto(const rpc::FeedRequest& request);
// kInvalid: no scope, or one of the wrong length.
Result<PurgeScope> FromProto(const rpc::PurgeRequest& request);

}  // namespace ember::kv
