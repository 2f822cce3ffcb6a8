#include "client/store_client/put_call.h"

#include <map>

#include "proto/wire/limits.h"

namespace ember {
namespace {

// What a batch reserves at once: little enough for small nodes, and lets loads in between.
constexpr uint64_t kMaxBatchBytes = 16 << 20;
constexpr size_t kMaxBatchHeaderBytes = wire::kMaxMetaBytes / 2;

std::string NameOf(const cluster::Connection& connection) {
  return "node " + connection.hello().node_id;
}

}  // namespace

PutCall::PutCall(CallContext& context, std::span<const PutRequest> requests,
                 const LayoutDigest& layout, TimePoint deadline)
    : context_(context),
      requests_(requests),
      deadline_(deadline),
      headers_(requests.size()),
      had_(requests.size()),
      owners_(requests.size()),
      outcomes_(requests.size()) {
  SystemRandom random;
  for (uint32_t i = 0; i < requests.size(); ++i) {
    outcomes_[i].status = MakeHeader(i, layout, random);
  }
}

Status PutCall::MakeHeader(uint32_t i, const LayoutDigest& layout, RandomSource& random) {
  const PutRequest& request = requests_[i];
  if (request.payload.empty()) return InvalidError("a segment without payload");
  if (request.payload.size() > wire::kMaxPayloadBytes) {
    return InvalidError("a payload of " + std::to_string(request.payload.size()) +
                        " bytes, limit " + std::to_string(wire::kMaxPayloadBytes));
  }
  if (request.tokens.size() > kMaxTokensPerSegment || request.layer_offsets.size() > kMaxLayers) {
    return InvalidError("a segment of too many tokens or layers");
  }
  SegmentHeader header{.key = request.ref.key,
                       .placement = request.ref.placement,
                       .first_block = request.ref.first_block,
                       .block_count = request.ref.block_count,
                       .proof = request.ref.proof,
                       .tokens = {request.tokens.begin(), request.tokens.end()},
                       .layout = layout,
                       .payload_length = request.payload.size(),
                       .checksum = Xxh3Of(request.payload),
                       .layer_offsets = request.layer_offsets,
                       .writer = context_.options.name,
                       .generation = {random.Next(), random.Next()},
                       .tenant = context_.options.tenant};
  headers_[i] = Encode(header);
  return OkStatus();
}

std::vector<PutOutcome> PutCall::Run() {
  const Status status = io::RunOnLoop<Status>(context_.shared_loop, [this] { return PushAll(); });
  for (size_t i = 0; i < outcomes_.size(); ++i) {
    PutOutcome& outcome = outcomes_[i];
    if (headers_[i].empty()) continue;  // refused here
    if (!status.ok() && outcome.copies == 0) outcome.status = status;
    outcome.was_there = owners_[i] > 0 && had_[i] == owners_[i];
    if (owners_[i] > 0 && outcome.copies == owners_[i]) outcome.status = OkStatus();
  }
  return std::move(outcomes_);
}

io::Task<Status> PutCall::PushAll() {
  Result<std::shared_ptr<const Cluster>> cluster = co_await context_.membership.Get(deadline_);
  if (!cluster.ok()) co_return cluster.status();
  cluster_ = *std::move(cluster);
  OwnerList owners(cluster_->view, context_.options.copies);
  std::map<size_t, Items> shares;
  for (uint32_t i = 0; i < requests_.size(); ++i) {
    if (headers_[i].empty()) continue;
    const std::vector<size_t>& of = owners.Of(requests_[i].ref);
    if (of.empty()) co_return UnavailableError("the view has no owners");
    owners_[i] = static_cast<uint32_t>(of.size());
    for (size_t member : of) shares[member].push_back(i);
  }
  io::Gate gate;
  for (auto& [member, items] : shares) gate.Spawn(Push(member, std::move(items)));
  co_await gate.Close();
  co_return OkStatus();
}

io::Task<void> PutCall::Push(size_t member, Items items) {
  const std::shared_ptr<cluster::Peer> peer = cluster_->peers[member];
  Status status;
  for (size_t next = 0; next < items.size();) {
    const Items batch = NextBatch(items, &next);
    if (status.ok()) {
      status = co_await peer->Exchange(
          cluster::Lane::kPush, deadline_,
          [&](cluster::Connection& connection) { return PushOn(connection, batch); });
    }
    // A node that refused one batch as a whole is not pressed with the others.
    if (!status.ok()) {
      for (uint32_t i : batch) Refuse(i, status);
    }
  }
}

PutCall::Items PutCall::NextBatch(const Items& items, size_t* next) const {
  Items batch;
  uint64_t bytes = 0;
  size_t header_bytes = 0;
  for (; *next < items.size() && batch.size() < wire::kMaxReservePerBatch; ++*next) {
    const uint32_t i = items[*next];
    bytes += requests_[i].payload.size();
    header_bytes += headers_[i].size();
    if (!batch.empty() && (bytes > kMaxBatchBytes || header_bytes > kMaxBatchHeaderBytes)) break;
    batch.push_back(i);
  }
  return batch;
}

io::Task<Status> PutCall::PushOn(cluster::Connection& connection, const Items& batch) {
  wire::Reserve reserve;
  for (uint32_t i : batch) reserve.headers.push_back(headers_[i]);
  Result<wire::ReserveReply> reply = co_await connection.Call<wire::ReserveReply>(
      wire::FrameType::kReserve, reserve, wire::FrameType::kReserveReply);
  if (!reply.ok()) co_return reply.status();
  if (reply->entries.size() != batch.size()) {
    co_return connection.Break(UnavailableError("a reserve reply of another length"));
  }
  Items to_send;
  std::vector<wire::AttemptToken> tokens;
  for (size_t k = 0; k < batch.size(); ++k) {
    if (reply->entries[k].have || reply->entries[k].code != StatusCode::kOk) continue;
    to_send.push_back(batch[k]);
    tokens.push_back(reply->entries[k].token);
  }
  if (!to_send.empty()) {
    EMBER_CO_RETURN_IF_ERROR(co_await Write(connection, to_send, tokens));
    EMBER_CO_RETURN_IF_ERROR(co_await Commit(connection, to_send, tokens));
  }
  // Only now, for a batch may be sent again on another connection.
  for (size_t k = 0; k < batch.size(); ++k) {
    const wire::ReserveEntry& entry = reply->entries[k];
    if (entry.have) {
      ++outcomes_[batch[k]].copies;
      ++had_[batch[k]];
    } else if (entry.code != StatusCode::kOk) {
      Refuse(batch[k], Status(entry.code, NameOf(connection) + " refused the reservation"));
    }
  }
  co_return OkStatus();
}

io::Task<Status> PutCall::Write(cluster::Connection& connection, const Items& items,
                                const std::vector<wire::AttemptToken>& tokens) {
  constexpr size_t kPerCall = io::kMaxGatherParts / 2;
  for (size_t begin = 0; begin < items.size(); begin += kPerCall) {
    const size_t count = std::min(kPerCall, items.size() - begin);
    std::vector<Bytes> heads(count);
    std::vector<ByteSpan> parts;
    for (size_t k = 0; k < count; ++k) {
      const ByteSpan payload = requests_[items[begin + k]].payload;
      const Bytes meta = Encode(wire::Write{.token = tokens[begin + k]});
      ByteWriter writer(&heads[k]);
      writer.PutRaw(wire::EncodeFrameHeader({wire::FrameType::kWrite, connection.NextRequestId(),
                                             static_cast<uint32_t>(meta.size()), payload.size()}));
      writer.PutRaw(meta);
      parts.push_back(heads[k]);
      parts.push_back(payload);
      context_.metrics.bytes_pushed.Add(payload.size());
    }
    EMBER_CO_RETURN_IF_ERROR(co_await connection.SendParts(parts));
  }
  co_return OkStatus();
}

io::Task<Status> PutCall::Commit(cluster::Connection& connection, const Items& items,
                                 const std::vector<wire::AttemptToken>& tokens) {
  Result<wire::CommitReply> reply = co_await connection.Call<wire::CommitReply>(
      wire::FrameType::kCommit, wire::Commit{tokens}, wire::FrameType::kCommitReply);
  if (!reply.ok()) co_return reply.status();
  if (reply->entries.size() != items.size()) {
    co_return connection.Break(UnavailableError("a commit reply of another length"));
  }
  for (size_t k = 0; k < items.size(); ++k) {
    const StatusCode code = reply->entries[k].code;
    if (code == StatusCode::kOk) {
      ++outcomes_[items[k]].copies;
    } else {
      Refuse(items[k], Status(code, NameOf(connection) + " refused the commit"));
    }
  }
  co_return OkStatus();
}

void PutCall::Refuse(uint32_t i, const Status& status) {
  if (outcomes_[i].status.ok()) outcomes_[i].status = status;
}

}  // namespace ember
