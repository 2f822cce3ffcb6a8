#include "kvstore/server/store_control.h"

#include <spdlog/spdlog.h>

#include "kvstore/server/feed_message.h"
#include "kvstore/server/grpc_code.h"

namespace ember::kv {
namespace {

constexpr Duration kStatusTimeout = seconds(1);
constexpr Duration kPurgeTimeout = seconds(30);  // of each shard
// Nobody wakes readers, so that nobody has to; they look.
constexpr Duration kLookForNews = milliseconds(10);

void ToProto(const NodeStatus& status, rpc::StoreStatus* out) {
  out->set_node_id(status.node_id);
  out->set_incarnation(status.incarnation);
  out->set_version(EMBER_VERSION);
  out->set_uptime_seconds(status.uptime_seconds);
  out->set_data_address(status.data_address);
  out->set_io_backend(status.io_backend);
  out->set_memory_capacity_bytes(status.total.memory_capacity_bytes);
  out->set_memory_used_bytes(status.total.memory_used_bytes);
  out->set_segments(status.total.segments);
  out->set_hits(status.total.hits);
  out->set_misses(status.total.misses);
  out->set_evictions(status.total.evictions);
  out->set_corruptions(status.total.corruptions);
  out->set_connections(status.total.connections);
  out->set_bytes_in(status.total.bytes_in);
  out->set_bytes_out(status.total.bytes_out);
  out->set_view_number(status.view_number);
  out->set_shm_offered(status.shm_offered);
  out->set_shm_clients(status.shm_clients);
  for (const wire::Member& member : status.members) {
    rpc::StoreMember* proto = out->add_members();
    proto->set_id(member.id);
    proto->set_address(io::Endpoint{member.host, member.port}.ToString());
    proto->set_weight(member.weight);
    proto->set_zone(member.zone);
  }
  for (const ShardStatus& shard : status.shards) {
    rpc::StoreShard* proto = out->add_shards();
    proto->set_memory_capacity_bytes(shard.memory_capacity_bytes);
    proto->set_memory_used_bytes(shard.memory_used_bytes);
    proto->set_segments(shard.segments);
    proto->set_hits(shard.hits);
    proto->set_misses(shard.misses);
    proto->set_evictions(shard.evictions);
    proto->set_connections(shard.connections);
    proto->set_bytes_in(shard.bytes_in);
    proto->set_bytes_out(shard.bytes_out);
    proto->set_corruptions(shard.corruptions);
    proto->set_leases(shard.leases);
    proto->set_puts_open(shard.puts_open);
    proto->set_shm_gets(shard.shm_gets);
    proto->set_shm_bytes(shard.shm_bytes);
    proto->set_disk_capacity_bytes(shard.disk_capacity_bytes);
    proto->set_disk_used_bytes(shard.disk_used_bytes);
    proto->set_disk_segments(shard.disk_segments);
    proto->set_disk_degraded(shard.disk_degraded);
    for (double bound : shard.gets.bounds) proto->mutable_gets()->add_bounds(bound);
    for (uint64_t count : shard.gets.counts) proto->mutable_gets()->add_counts(count);
  }
}

std::string_view NameOf(PurgeScope::Kind kind) {
  switch (kind) {
    case PurgeScope::Kind::kEverything:
      return "everything";
    case PurgeScope::Kind::kNamespace:
      return "namespace";
    case PurgeScope::Kind::kTenant:
      return "tenant";
  }
  return "?";
}

}  // namespace

StoreControl::StoreControl(ControlSources sources, ControlMetrics* metrics)
    : sources_(std::move(sources)),
      metrics_(metrics),
      readers_(&clock_, metrics),
      purger_(sources_.shards) {}

grpc::Status StoreControl::GetStatus(grpc::ServerContext*, const rpc::GetStoreStatusRequest*,
                                     rpc::StoreStatus* reply) {
  Result<NodeStatus> status = sources_.status(kStatusTimeout);
  if (!status.ok()) return ToGrpc(status.status());
  ToProto(*status, reply);
  reply->set_feed_readers(static_cast<uint32_t>(readers_.size()));
  return grpc::Status::OK;
}

grpc::Status StoreControl::Watch(grpc::ServerContext* context, const rpc::FeedRequest* request,
                                 grpc::ServerWriter<rpc::FeedBatch>* writer) {
  Result<std::vector<FeedPosition>> resume = FromProto(*request);
  if (!resume.ok()) return ToGrpc(resume.status());
  Result<std::unique_ptr<FeedReaders::Place>> place =
      readers_.Enter([context] { context->TryCancel(); });
  if (!place.ok()) return ToGrpc(place.status());
  writer->SendInitialMetadata();  // the reader knows that it is being served
  FeedCursor cursor(sources_.shards, *resume);
  const Status why = Follow(context, &cursor, place->get(), writer);
  if ((*place)->was_cut_off()) {
    return ToGrpc(BusyError("nothing was read for long, and others want to"));
  }
  return ToGrpc(why);
}

Status StoreControl::Follow(grpc::ServerContext* context, FeedCursor* cursor,
                            FeedReaders::Place* place, grpc::ServerWriter<rpc::FeedBatch>* writer) {
  uint64_t snapshots = 0, overtaken = 0;
  while (!context->IsCancelled()) {
    Result<std::optional<FeedPiece>> piece = cursor->Next();
    if (!piece.ok()) return piece.status();
    metrics_->feed_snapshots.Add(cursor->snapshots() -
                                 std::exchange(snapshots, cursor->snapshots()));
    metrics_->feed_overtaken.Add(cursor->overtaken() -
                                 std::exchange(overtaken, cursor->overtaken()));
    if (!piece->has_value()) {
      if (!WaitForNews()) return UnavailableError("the node is stopping");
      continue;
    }
    rpc::FeedBatch batch;
    ToProto(**piece, static_cast<uint32_t>(sources_.shards.size()), &batch);
    place->BeginWrite();
    const bool written = writer->Write(batch);
    place->EndWrite();
    if (!written) break;
    metrics_->feed_batches.Add();
  }
  return CancelledError("the reader has gone");
}

bool StoreControl::WaitForNews() {
  std::unique_lock lock(mutex_);
  return !stopped_.wait_for(lock, kLookForNews, [this] { return stopping_; });
}

void StoreControl::Stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  stopped_.notify_all();
}

grpc::Status StoreControl::Purge(grpc::ServerContext*, const rpc::PurgeRequest* request,
                                 rpc::PurgeReply* reply) {
  Result<PurgeScope> scope = FromProto(*request);
  if (!scope.ok()) return ToGrpc(scope.status());
  Result<Purger::Outcome> outcome = purger_.Purge(*scope, kPurgeTimeout);
  if (!outcome.ok()) return ToGrpc(outcome.status());
  spdlog::info("purged scope={} epoch={} segments={} durable={}", NameOf(scope->kind),
               outcome->epoch, outcome->segments, outcome->durable);
  reply->set_epoch(outcome->epoch);
  reply->set_segments(outcome->segments);
  reply->set_durable(outcome->durable);
  return grpc::Status::OK;
}

}  // namespace ember::kv
