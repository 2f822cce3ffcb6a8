#include "kvstore/server/feed_cursor.h"

#include <algorithm>

namespace ember::kv {
namespace {

constexpr size_t kSnapshotStep = 512;  // extents looked at while the shard does nothing else
constexpr size_t kEventsPerPiece = 2048;
constexpr Duration kAnswerWithin = seconds(5);

struct Part {
  uint64_t newest = 0;  // before the visit
  bool on_disk = false;
  uint64_t next = 0;  // 0: nothing more
  std::vector<FeedEntry> entries;
};

// Memory first, then disk. Neither moves what stays, so whatever is there all the time is visited.
Part Visit(const FeedLog& feed, bool on_disk, uint64_t from, ShardEngine& engine) {
  Part part{.newest = feed.newest(), .on_disk = on_disk, .next = 0, .entries = {}};
  if (!on_disk) {
    part.next = engine.VisitStored(from, kSnapshotStep,
                                   [&part](const BlockKey& key, const GenerationId& generation) {
                                     part.entries.push_back({key, Tier::kMemory, generation});
                                   });
    if (part.next != 0) return part;
    part.on_disk = true;
    from = 0;
  }
  const DiskIndex& disk = engine.disk();
  const uint64_t end = std::min<uint64_t>(from + kSnapshotStep, disk.slots());
  for (uint64_t slot = from; slot < end; ++slot) {
    const DiskEntry* entry = disk.At(slot);
    if (entry == nullptr) continue;
    part.entries.push_back({entry->record.key, Tier::kDisk, entry->record.generation});
  }
  part.next = end < disk.slots() ? end : 0;
  return part;
}

}  // namespace

FeedCursor::FeedCursor(std::span<const ShardDoor> shards, std::span<const FeedPosition> resume) {
  for (const ShardDoor& shard : shards) {
    Place place{.shard = shard};
    const auto at = std::ranges::find(resume, shard.number, &FeedPosition::shard);
    if (at != resume.end() && at->log == shard.feed->id() && at->sequence <= shard.feed->newest()) {
      place.snapshotting = false;
      place.sequence = at->sequence;
    }
    places_.push_back(place);
  }
}

Result<std::optional<FeedPiece>> FeedCursor::Next() {
  for (size_t i = 0; i < places_.size(); ++i) {
    Place* place = &places_[turn_++ % places_.size()];
    Result<std::optional<FeedPiece>> piece = NextOf(place);
    if (!piece.ok() || piece->has_value()) return piece;
  }
  return std::optional<FeedPiece>();
}

Result<std::optional<FeedPiece>> FeedCursor::NextOf(Place* place) {
  if (!place->snapshotting) {
    FeedPiece piece{.shard = place->shard.number,
                    .log = place->shard.feed->id(),
                    .sequence = place->sequence + 1,
                    .entries = {},
                    .events = {}};
    if (place->shard.feed->Read(place->sequence, kEventsPerPiece, &piece.events)) {
      if (piece.events.empty()) return std::optional<FeedPiece>();
      place->sequence += piece.events.size();
      return std::optional<FeedPiece>(std::move(piece));
    }
    ++overtaken_;
    place->snapshotting = true;
  }
  return SnapshotPart(place);
}

Result<std::optional<FeedPiece>> FeedCursor::SnapshotPart(Place* place) {
  const FeedLog* const feed = place->shard.feed;
  // What happened since its beginning must still be in the ring at its end.
  if (place->begun && feed->newest() - place->sequence > feed->capacity()) {
    ++overtaken_;
    place->begun = false;
  }
  const uint64_t from = place->begun ? place->visited : 0;
  const bool on_disk = place->begun && place->on_disk;
  Result<Part> part =
      AskShard<Part>(place->shard, kAnswerWithin, [feed, on_disk, from](ShardEngine& engine) {
        return Result<Part>(Visit(*feed, on_disk, from, engine));
      });
  if (!part.ok()) return part.status();
  if (!place->begun) {
    place->sequence = part->newest;
    ++snapshots_;
  }
  FeedPiece piece{.shard = place->shard.number,
                  .log = feed->id(),
                  .snapshot = true,
                  .begins = !place->begun,
                  .ends = part->next == 0,
                  .sequence = place->sequence,
                  .entries = std::move(part->entries),
                  .events = {}};
  place->visited = part->next;
  place->on_disk = part->on_disk;
  place->begun = !piece.ends;
  place->snapshotting = !piece.ends;
  return std::optional<FeedPiece>(std::move(piece));
}

}  // namespace ember::kv
