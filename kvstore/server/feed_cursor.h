// FeedCursor: one reader's way through a node's feed: for each shard a snapshot, then every change
// since, numbered without gaps.
//
// Operation: a snapshot notes the number of the newest event, then visits what is stored, a few
// hundred segments at a time on the shard's thread, so that no put waits for it. What comes and
// goes meanwhile is in the events after that number, which follow; applied in their order they make
// the picture right, whether the visit saw a change or not: the last event of a key decides, and a
// key without one was there all the time. A cursor that is overtaken by the ring starts a new
// snapshot. Concurrency: one thread at a time, not a shard's. It holds nothing in the node between
// calls.
#pragma once

#include <optional>
#include <vector>

#include "kvstore/server/shard_door.h"

namespace ember::kv {

// Where a reader stopped: it has every event of that log up to `sequence`.
struct FeedPosition {
  uint32_t shard = 0;
  uint64_t log = 0;
  uint64_t sequence = 0;
};

struct FeedEntry {
  BlockKey key;
  Tier tier = Tier::kMemory;
  GenerationId generation;
};

// What a reader gets at once, of one shard: a part of a snapshot, or some events.
struct FeedPiece {
  uint32_t shard = 0;
  uint64_t log = 0;
  bool snapshot = false;
  bool begins = false;    // the snapshot's first part: forget what was known of this shard
  bool ends = false;      // the snapshot's last part
  uint64_t sequence = 0;  // snapshot: of the last event before it; else of the first event here
  std::vector<FeedEntry> entries;
  std::vector<FeedEvent> events;
};

class FeedCursor {
 public:
  // Goes on from the positions that are still in the shards' rings; for the others, and for shards
  // without one, begins with a snapshot.
  FeedCursor(std::span<const ShardDoor> shards, std::span<const FeedPosition> resume);

  // Nothing: no news now. kDeadline, kCancelled: as AskShard.
  Result<std::optional<FeedPiece>> Next();
  // Snapshots begun so far, and those of them that began because the ring went past.
  uint64_t snapshots() const { return snapshots_; }
  uint64_t overtaken() const { return overtaken_; }

 private:
  struct Place {
    ShardDoor shard;
    bool snapshotting = true;
    bool begun = false;     // this snapshot's first part is out
    bool on_disk = false;   // memory is visited, the disk is under way
    uint64_t visited = 0;   // of the snapshot: the engine's cursor, or slots of the disk's index
    uint64_t sequence = 0;  // events up to here are delivered, or part of the snapshot
  };

  Result<std::optional<FeedPiece>> NextOf(Place* place);
  Result<std::optional<FeedPiece>> SnapshotPart(Place* place);

  std::vector<Place> places_;
  size_t turn_ = 0;
  uint64_t snapshots_ = 0;
  uint64_t overtaken_ = 0;
};

}  // namespace ember::kv
