#include "kvstore/server/feed_message.h"

#include "proto/wire/limits.h"

namespace ember::kv {
namespace {

std::string KeyBytes(const BlockKey& key) {
  std::string out(AsString(key.ns.bytes));
  out += AsString(key.hash.bytes);
  return out;
}

std::string GenerationBytes(const GenerationId& generation) {
  std::string out(sizeof generation.high + sizeof generation.low, '\0');
  std::memcpy(out.data(), &generation.high, 8);
  std::memcpy(out.data() + 8, &generation.low, 8);
  return out;
}

void Fill(const BlockKey& key, Tier tier, const GenerationId& generation, rpc::FeedEntry* out) {
  out->set_key(KeyBytes(key));
  out->set_tier(static_cast<uint32_t>(tier));
  out->set_generation(GenerationBytes(generation));
}

void Fill(const PurgeScope& scope, uint64_t epoch, rpc::PurgedScope* out) {
  out->set_epoch(epoch);
  switch (scope.kind) {
    case PurgeScope::Kind::kEverything:
      return out->set_everything(true);
    case PurgeScope::Kind::kNamespace:
      return out->set_namespace_id(std::string(AsString(scope.ns.bytes)));
    case PurgeScope::Kind::kTenant:
      return out->set_tenant_hash(scope.tenant_hash);
  }
}

void Fill(const FeedEvent& event, rpc::FeedEvent* out) {
  switch (event.kind) {
    case FeedEvent::Kind::kStored:
      return Fill(event.key, event.tier, event.generation, out->mutable_stored());
    case FeedEvent::Kind::kRemoved:
      Fill(event.key, event.tier, event.generation, out->mutable_removed()->mutable_entry());
      return out->mutable_removed()->set_reason(std::string(MissReasonName(event.reason)));
    case FeedEvent::Kind::kPurged:
      return Fill(event.scope, event.epoch, out->mutable_purged());
  }
}

}  // namespace

void ToProto(const FeedPiece& piece, uint32_t shard_count, rpc::FeedBatch* out) {
  out->set_shard(piece.shard);
  out->set_shard_count(shard_count);
  out->set_log(piece.log);
  if (piece.snapshot) {
    rpc::SnapshotPart* part = out->mutable_snapshot();
    part->set_begins(piece.begins);
    part->set_ends(piece.ends);
    part->set_sequence(piece.sequence);
    for (const FeedEntry& entry : piece.entries) {
      Fill(entry.key, entry.tier, entry.generation, part->add_entries());
    }
    return;
  }
  out->mutable_events()->set_first_sequence(piece.sequence);
  for (const FeedEvent& event : piece.events) Fill(event, out->mutable_events()->add_events());
}

Result<std::vector<FeedPosition>> FromProto(const rpc::FeedRequest& request) {
  if (request.resume_size() > static_cast<int>(wire::kMaxShards)) {
    return InvalidError("resume: more positions than a node has shards");
  }
  std::vector<FeedPosition> positions;
  for (const rpc::FeedPosition& p : request.resume()) {
    positions.push_back({.shard = p.shard(), .log = p.log(), .sequence = p.sequence()});
  }
  return positions;
}

Result<PurgeScope> FromProto(const rpc::PurgeRequest& request) {
  switch (request.scope_case()) {
    case rpc::PurgeRequest::kEverything:
      if (!request.everything()) break;
      return PurgeScope::Everything();
    case rpc::PurgeRequest::kNamespaceId: {
      NamespaceId ns;
      if (request.namespace_id().size() != ns.bytes.size()) {
        return InvalidError("namespace_id: 16 bytes");
      }
      std::memcpy(ns.bytes.data(), request.namespace_id().data(), ns.bytes.size());
      return PurgeScope::OfNamespace(ns);
    }
    case rpc::PurgeRequest::kTenant:
      if (request.tenant().empty() || request.tenant().size() > kMaxNameBytes) {
        return InvalidError("tenant: 1 to 256 bytes");
      }
      return PurgeScope::OfTenant(request.tenant());
    default:
      break;
  }
  return InvalidError("say what to purge: everything, a namespace or a tenant");
}

}  // namespace ember::kv
