#include "kvstore/server/put_stream.h"

#include <algorithm>

namespace ember::kv {
namespace {

constexpr Duration kAnswerWithin = seconds(5);

// What a refused write of an open put means for its segment.
Result<StatusCode> WriteChunk(ShardEngine& engine, OwnerId owner, const AttemptToken& token,
                              uint64_t offset, ByteSpan chunk) {
  Result<WriteGrant> grant = engine.BeginWrite(owner, token, offset, chunk.size());
  if (!grant.ok()) return grant.status().code();
  std::ranges::copy(chunk, grant->remaining().begin());
  grant->Advance(chunk.size());
  return StatusCode::kOk;
}

io::Task<Result<std::vector<StatusCode>>> PersistOn(const ShardDoor& shard,
                                                    std::vector<BlockKey> keys) {
  co_return co_await shard.disk->Persist(std::move(keys));
}

}  // namespace

PutStream::PutStream(std::span<const ShardDoor> shards, OwnerId owner, const Clock* clock,
                     TimePoint deadline)
    : shards_(shards), owner_(owner), clock_(clock), deadline_(deadline) {}

// After whatever was asked before and not answered in time.
PutStream::~PutStream() {
  for (const ShardDoor& shard : shards_) {
    shard.loop->Post([engine = shard.engine, owner = owner_] { engine->Disconnect(owner); });
  }
}

Duration PutStream::left() const {
  return std::clamp<Duration>(deadline_ - clock_->Now(), Duration::zero(), kAnswerWithin);
}

Status PutStream::Begin(std::string header) {
  EMBER_RETURN_IF_ERROR(Commit());
  if (verdicts_.size() >= kMaxSegments) {
    return InvalidError("more than " + std::to_string(kMaxSegments) + " segments in one stream");
  }
  if (header.size() > kMaxSegmentHeaderBytes) return InvalidError("a segment's header is too long");
  Result<SegmentHeader> decoded = DecodeSegmentHeader(AsBytes(header));
  if (!decoded.ok()) {
    verdicts_.push_back({.code = decoded.status().code()});
    return OkStatus();
  }
  const ShardDoor& shard = DoorOf(shards_, decoded->key.ns, decoded->placement);
  Result<ShardEngine::Reservation> reserved = AskShard<ShardEngine::Reservation>(
      shard, left(), [owner = owner_, header = std::move(header)](ShardEngine& engine) {
        return Result<ShardEngine::Reservation>(engine.Reserve(owner, AsBytes(header)));
      });
  if (!reserved.ok()) return reserved.status();
  verdicts_.push_back({.code = reserved->code, .had = reserved->have});
  if (reserved->code == StatusCode::kOk && !reserved->have) {
    open_ = Open{.shard = &shard, .key = decoded->key, .token = reserved->token};
  }
  if (reserved->have) NoteStored(&shard, decoded->key);
  return OkStatus();
}

Status PutStream::Write(std::string chunk) {
  if (verdicts_.empty()) return InvalidError("a chunk before any header");
  if (chunk.size() > kMaxChunkBytes) return InvalidError("a chunk over 1 MiB");
  if (!open_ || chunk.empty()) return OkStatus();
  const uint64_t offset = open_->written;
  open_->written += chunk.size();
  Result<StatusCode> code =
      AskShard<StatusCode>(*open_->shard, left(),
                           [owner = owner_, token = open_->token, offset,
                            chunk = std::move(chunk)](ShardEngine& engine) {
                             return WriteChunk(engine, owner, token, offset, AsBytes(chunk));
                           });
  if (!code.ok()) return code.status();
  if (*code != StatusCode::kOk) {
    verdicts_.back().code = *code;
    open_.reset();
  }
  return OkStatus();
}

Status PutStream::Commit() {
  if (!open_) return OkStatus();
  Result<StatusCode> code = AskShard<StatusCode>(
      *open_->shard, left(), [owner = owner_, token = open_->token](ShardEngine& engine) {
        return Result<StatusCode>(engine.Commit(owner, token));
      });
  if (!code.ok()) return code.status();
  verdicts_.back().code = *code;
  if (*code == StatusCode::kOk) NoteStored(open_->shard, open_->key);
  open_.reset();
  return OkStatus();
}

// A segment that can't be made durable keeps the level that it has.
Status PutStream::Persist() {
  for (const ShardDoor& shard : shards_) {
    if (shard.disk == nullptr) continue;
    std::vector<BlockKey> keys;
    std::vector<size_t> verdicts;
    for (const Stored& stored : stored_) {
      if (stored.shard != &shard) continue;
      keys.push_back(stored.key);
      verdicts.push_back(stored.verdict);
    }
    if (keys.empty()) continue;
    Result<std::vector<StatusCode>> durable = AwaitShard<std::vector<StatusCode>>(
        shard, std::max<Duration>(deadline_ - clock_->Now(), Duration::zero()),
        [keys](const ShardDoor& door) { return PersistOn(door, keys); });
    if (!durable.ok()) return durable.status();
    for (size_t i = 0; i < verdicts.size(); ++i) {
      if ((*durable)[i] == StatusCode::kOk) verdicts_[verdicts[i]].level = AckLevel::kDisk;
    }
  }
  return OkStatus();
}

Result<std::vector<PutStream::Verdict>> PutStream::Finish(AckLevel ack) {
  EMBER_RETURN_IF_ERROR(Commit());
  if (ack == AckLevel::kDisk) EMBER_RETURN_IF_ERROR(Persist());
  return std::move(verdicts_);
}

}  // namespace ember::kv
