#include "kvstore/server/store_data.h"

#include <algorithm>

#include "kvstore/server/data_message.h"
#include "kvstore/server/grpc_code.h"
#include "kvstore/server/held_segment.h"
#include "kvstore/server/put_stream.h"
#include "proto/wire/limits.h"

namespace ember::kv {
namespace {

constexpr Duration kAnswerWithin = seconds(5);
constexpr Duration kLongestCall = std::chrono::minutes(10);
constexpr size_t kChunkBytes = PutStream::kMaxChunkBytes;

}  // namespace

// One data call: its place among them, until it ends.
class StoreData::Call {
 public:
  explicit Call(StoreData* service) : service_(service) { Set(++service_->calls_); }
  ~Call() { Set(--service_->calls_); }
  Call(const Call&) = delete;

 private:
  void Set(int calls) { service_->metrics_->data_calls.Set(calls); }
  StoreData* const service_;
};

template <typename Work>
grpc::Status StoreData::Admit(grpc::ServerContext* context, Work work) {
  const Call call(this);
  if (calls_ > kMaxCalls) {
    metrics_->data_refused.Add();
    return ToGrpc(BusyError("too many data calls over gRPC at once"));
  }
  const auto left = context->deadline() - std::chrono::system_clock::now();
  if (left > kLongestCall) {
    metrics_->data_invalid.Add();
    return ToGrpc(InvalidError("set a deadline of at most ten minutes"));
  }
  const Status status = work(clock_.Now() + left);
  if (status.code() == StatusCode::kInvalid) metrics_->data_invalid.Add();
  return ToGrpc(status);
}

grpc::Status StoreData::Match(grpc::ServerContext* context,
                              const rpc::MatchSegmentsRequest* request,
                              rpc::MatchSegmentsReply* reply) {
  return Admit(context, [&](TimePoint deadline) {
    Result<std::vector<SegmentName>> names = FromProto(*request);
    if (!names.ok()) return names.status();
    const Duration lease = milliseconds(std::min(request->lease_ms(), wire::kMaxLeaseMs));
    for (size_t i = 0; i < names->size(); ++i) reply->add_segments();
    for (const ShardDoor& shard : shards_) {
      std::vector<BlockKey> keys;
      std::vector<int> places;
      for (size_t i = 0; i < names->size(); ++i) {
        const SegmentName& name = (*names)[i];
        if (&DoorOf(shards_, name.key.ns, name.placement) != &shard) continue;
        keys.push_back(name.key);
        places.push_back(static_cast<int>(i));
      }
      if (keys.empty()) continue;
      Result<ShardEngine::Matched> matched = AskShard<ShardEngine::Matched>(
          shard, std::min(deadline - clock_.Now(), kAnswerWithin),
          [keys = std::move(keys), lease](ShardEngine& engine) {
            return Result<ShardEngine::Matched>(engine.Match(kNoOwner, keys, lease));
          });
      if (!matched.ok()) return matched.status();
      for (size_t i = 0; i < places.size(); ++i) {
        const ShardEngine::Presence& key = matched->keys[i];
        rpc::MatchedSegment* out = reply->mutable_segments(places[i]);
        out->set_miss(static_cast<uint32_t>(key.miss));
        out->set_payload_length(key.payload_length);
        out->set_generation(BytesOf(key.generation));
        out->set_tier(static_cast<uint32_t>(key.tier));
      }
      if (matched->lease_id == 0) continue;
      rpc::ShardLease* out = reply->add_leases();
      out->set_shard(shard.number);
      out->set_id(matched->lease_id);
    }
    return OkStatus();
  });
}

grpc::Status StoreData::Release(grpc::ServerContext*, const rpc::ReleaseLeasesRequest* request,
                                rpc::ReleaseLeasesReply*) {
  if (request->leases_size() > static_cast<int>(wire::kMaxShards)) {
    return ToGrpc(InvalidError("more leases than a node has shards"));
  }
  for (const rpc::ShardLease& lease : request->leases()) {
    if (lease.shard() >= shards_.size()) continue;
    const ShardDoor& shard = shards_[lease.shard()];
    shard.loop->Post([engine = shard.engine, id = lease.id()] { engine->Release(id); });
  }
  return grpc::Status::OK;
}

grpc::Status StoreData::Put(grpc::ServerContext* context, grpc::ServerReader<rpc::PutPiece>* reader,
                            rpc::PutSegmentsReply* reply) {
  return Admit(context, [&](TimePoint deadline) {
    PutStream stream(shards_, ++last_owner_, &clock_, deadline);
    AckLevel ack = AckLevel::kMemory;
    rpc::PutPiece piece;
    while (reader->Read(&piece)) {
      Status status;
      if (piece.has_header()) {
        status = stream.Begin(std::move(*piece.mutable_header()));
      } else if (piece.has_chunk()) {
        metrics_->bytes_in.Add(piece.chunk().size());
        status = stream.Write(std::move(*piece.mutable_chunk()));
      } else if (piece.has_options()) {
        ack = AckLevelFromWire(static_cast<uint8_t>(std::min(piece.options().ack(), 255u)));
      }
      if (!status.ok()) return status;
    }
    if (context->IsCancelled()) return CancelledError("the writer has gone");
    Result<std::vector<PutStream::Verdict>> verdicts = stream.Finish(ack);
    if (!verdicts.ok()) return verdicts.status();
    for (const PutStream::Verdict& verdict : *verdicts) {
      rpc::PutVerdict* out = reply->add_verdicts();
      out->set_code(static_cast<uint32_t>(verdict.code));
      out->set_had(verdict.had);
      out->set_level(static_cast<uint32_t>(verdict.level));
    }
    return OkStatus();
  });
}

grpc::Status StoreData::Get(grpc::ServerContext* context, const rpc::GetSegmentsRequest* request,
                            grpc::ServerWriter<rpc::GetPiece>* writer) {
  return Admit(context, [&](TimePoint deadline) {
    EMBER_RETURN_IF_ERROR(Check(*request));
    for (int i = 0; i < request->items_size(); ++i) {
      EMBER_RETURN_IF_ERROR(
          SendItem(static_cast<uint32_t>(i), request->items(i), deadline, writer));
    }
    return OkStatus();
  });
}

// Looked up when its turn comes and pinned until its last chunk is out.
Status StoreData::SendItem(uint32_t index, const rpc::GetSegment& item, TimePoint deadline,
                           grpc::ServerWriter<rpc::GetPiece>* writer) {
  const SegmentName name = *SegmentNameOf(item.name());
  Result<HeldSegment> held = HoldSegment(DoorOf(shards_, name.key.ns, name.placement), name.key,
                                         std::min(deadline - clock_.Now(), kAnswerWithin));
  if (!held.ok()) return held.status();
  ByteSpan left = held->payload;
  if (held->miss == MissReason::kNone) {
    // Who asks for bytes past the end has another layout in mind.
    if (item.offset() > left.size() || item.length() > left.size() - item.offset()) {
      held->miss = MissReason::kLayoutDiffers;
    } else {
      left = left.subspan(item.offset(), item.length() == 0 ? std::dynamic_extent : item.length());
    }
  }
  rpc::GetPiece piece;
  piece.set_index(index);
  if (held->miss != MissReason::kNone) {
    piece.set_miss(static_cast<uint32_t>(held->miss));
    piece.set_last(true);
    return writer->Write(piece) ? OkStatus() : CancelledError("the reader has gone");
  }
  piece.set_header(std::string(AsString(held->header)));
  uint64_t offset = item.offset();
  do {
    const ByteSpan chunk = left.first(std::min(left.size(), kChunkBytes));
    left = left.subspan(chunk.size());
    piece.set_offset(offset);
    piece.mutable_chunk()->assign(AsString(chunk));
    piece.set_last(left.empty());
    if (!writer->Write(piece)) return CancelledError("the reader has gone");
    metrics_->bytes_out.Add(chunk.size());
    offset += chunk.size();
    piece.clear_header();
  } while (!left.empty());
  return OkStatus();
}

grpc::Status StoreData::ReportCorrupt(grpc::ServerContext* context,
                                      const rpc::ReportCorruptRequest* request,
                                      rpc::ReportCorruptReply*) {
  return Admit(context, [&](TimePoint) {
    Result<SegmentName> name = SegmentNameOf(request->name());
    if (!name.ok()) return name.status();
    Result<GenerationId> generation = GenerationOf(request->generation());
    if (!generation.ok()) return generation.status();
    const ShardDoor& shard = DoorOf(shards_, name->key.ns, name->placement);
    shard.loop->Post([engine = shard.engine, key = name->key, generation = *generation] {
      engine->ReportCorrupt(key, generation);
    });
    return OkStatus();
  });
}

}  // namespace ember::kv
