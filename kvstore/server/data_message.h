// The gRPC data messages as our types; what comes from outside is checked here. Pure functions.
#pragma once

#include <string>

#include "kvstore/engine/shard_engine.h"
#include "proto/rpc/store_data.pb.h"

namespace ember::kv {

// How a segment is named over gRPC: its key, and the placement group that says which shard has it.
struct SegmentName {
  BlockKey key;
  BlockHash placement;
};

inline constexpr int kMaxNamesPerCall = 4096;

// kInvalid: not 48 bytes.
Result<SegmentName> SegmentNameOf(const std::string& bytes);
// kInvalid: not 16 bytes.
Result<GenerationId> GenerationOf(const std::string& bytes);
std::string BytesOf(const GenerationId& generation);

// kInvalid: too many, or one that is no name.
Result<std::vector<SegmentName>> FromProto(const rpc::MatchSegmentsRequest& request);
Status Check(const rpc::GetSegmentsRequest& request);

}  // namespace ember::kv
