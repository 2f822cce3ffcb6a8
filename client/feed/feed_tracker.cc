#include "client/feed/feed_tracker.h"

#include <functional>
#include <vector>

#include "proto/wire/limits.h"

namespace ember {
namespace {

Result<FeedItem> ItemOf(const rpc::FeedEntry& entry) {
  FeedItem item;
  if (entry.key().size() != 32 || entry.generation().size() != 16) {
    return InvalidError("feed: a key or generation of the wrong length");
  }
  std::memcpy(item.key.ns.bytes.data(), entry.key().data(), 16);
  std::memcpy(item.key.hash.bytes.data(), entry.key().data() + 16, 16);
  std::memcpy(&item.generation.high, entry.generation().data(), 8);
  std::memcpy(&item.generation.low, entry.generation().data() + 8, 8);
  item.tier = TierFromWire(static_cast<uint8_t>(std::min(entry.tier(), 255u)));
  return item;
}

Result<PurgeScope> ScopeOf(const rpc::PurgedScope& purged) {
  PurgeScope scope;
  switch (purged.scope_case()) {
    case rpc::PurgedScope::kEverything:
      return PurgeScope::Everything();
    case rpc::PurgedScope::kNamespaceId:
      if (purged.namespace_id().size() != scope.ns.bytes.size()) break;
      std::memcpy(scope.ns.bytes.data(), purged.namespace_id().data(), scope.ns.bytes.size());
      return PurgeScope::OfNamespace(scope.ns);
    case rpc::PurgedScope::kTenantHash:
      scope.kind = PurgeScope::Kind::kTenant;
      scope.tenant_hash = purged.tenant_hash();
      return scope;
    default:
      break;
  }
  return InvalidError("feed: a purge of nothing");
}

// What to tell the listener of one event.
using Call = std::function<void(FeedListener&)>;

Result<Call> CallOf(uint32_t shard, const rpc::FeedEvent& event) {
  switch (event.event_case()) {
    case rpc::FeedEvent::kStored: {
      Result<FeedItem> item = ItemOf(event.stored());
      if (!item.ok()) return item.status();
      return Call([shard, item = *item](FeedListener& l) { l.OnStored(shard, item); });
    }
    case rpc::FeedEvent::kRemoved: {
      Result<FeedItem> item = ItemOf(event.removed().entry());
      if (!item.ok()) return item.status();
      return Call([shard, item = *item, &reason = event.removed().reason()](FeedListener& l) {
        l.OnRemoved(shard, item, reason);
      });
    }
    case rpc::FeedEvent::kPurged: {
      Result<PurgeScope> scope = ScopeOf(event.purged());
      if (!scope.ok()) return scope.status();
      return Call([shard, scope = *scope, epoch = event.purged().epoch()](FeedListener& l) {
        l.OnPurged(shard, scope, epoch);
      });
    }
    default:
      return Call([](FeedListener&) {});  // of a kind that a newer node knows: it only counts
  }
}

}  // namespace

Status FeedTracker::Take(const rpc::FeedBatch& batch) {
  if (batch.shard_count() == 0 || batch.shard_count() > wire::kMaxShards ||
      batch.shard() >= batch.shard_count()) {
    return InvalidError("feed: no such shard");
  }
  Status status;
  switch (batch.batch_case()) {
    case rpc::FeedBatch::kSnapshot:
      status = TakeSnapshot(batch.shard(), batch.log(), batch.shard_count(), batch.snapshot());
      break;
    case rpc::FeedBatch::kEvents:
      status = TakeEvents(batch.shard(), batch.log(), batch.events());
      break;
    default:
      status = InvalidError("feed: an empty batch");
  }
  if (!status.ok()) places_.erase(batch.shard());  // to begin anew
  return status;
}

Status FeedTracker::TakeSnapshot(uint32_t shard, uint64_t log, uint32_t shard_count,
                                 const rpc::SnapshotPart& part) {
  std::vector<FeedItem> items;
  for (const rpc::FeedEntry& entry : part.entries()) {
    Result<FeedItem> item = ItemOf(entry);
    if (!item.ok()) return item.status();
    items.push_back(*item);
  }
  Place& place = places_[shard];
  if (part.begins()) {
    place = {.log = log, .sequence = part.sequence(), .complete = false, .begun = true};
    places_.erase(places_.lower_bound(shard_count), places_.end());
    listener_.OnSnapshot(shard, shard_count);
  } else if (!place.begun || place.log != log || place.sequence != part.sequence()) {
    return MismatchError("feed: a part of a snapshot that did not begin");
  }
  for (const FeedItem& item : items) listener_.OnStored(shard, item);
  if (part.ends()) {
    place.begun = false;
    place.complete = true;
    listener_.OnCurrent(shard);
  }
  return OkStatus();
}

Status FeedTracker::TakeEvents(uint32_t shard, uint64_t log, const rpc::FeedEvents& events) {
  const auto place = places_.find(shard);
  if (place == places_.end() || !place->second.complete || place->second.log != log ||
      events.first_sequence() != place->second.sequence + 1) {
    return MismatchError("feed: events were skipped");
  }
  std::vector<Call> calls;
  for (const rpc::FeedEvent& event : events.events()) {
    Result<Call> call = CallOf(shard, event);
    if (!call.ok()) return call.status();
    calls.push_back(*std::move(call));
  }
  for (const Call& call : calls) call(listener_);
  place->second.sequence += calls.size();
  return OkStatus();
}

rpc::FeedRequest FeedTracker::Resume() const {
  rpc::FeedRequest request;
  for (const auto& [shard, place] : places_) {
    if (!place.complete) continue;
    rpc::FeedPosition* position = request.add_resume();
    position->set_shard(shard);
    position->set_log(place.log);
    position->set_sequence(place.sequence);
  }
  return request;
}

}  // namespace ember
