// EngineObserver: is told what comes and goes in a shard, as it happens; the feed is made of it.
//
// Called on the shard's thread from within the engine: it must not call the engine back, and what
// it does delays the put or get at hand.
#pragma once

#include "proto/model/miss_reason.h"
#include "proto/model/purge_scope.h"
#include "proto/model/segment.h"
#include "proto/model/tier.h"

namespace ember::kv {

class EngineObserver {
 public:
  virtual ~EngineObserver() = default;

  // Readable in this tier from now.
  virtual void Stored(const BlockKey& key, Tier tier, const GenerationId& generation) = 0;
  // Not readable in this tier any more; `reason` as a later miss would say it.
  virtual void Removed(const BlockKey& key, Tier tier, const GenerationId& generation,
                       MissReason reason) = 0;
  // After the Removed of everything that it took.
  virtual void Purged(const PurgeScope& scope, uint64_t epoch) = 0;
};

}  // namespace ember::kv
