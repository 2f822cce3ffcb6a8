#include "client/store_client/get_call.h"

#include "proto/wire/limits.h"

namespace ember {
namespace {

// Between two batches a load notices that its prefix was cut elsewhere. The next one is asked for
// before the last has come; so a request must be small enough to be taken by the kernel's buffers
// while the node is busy sending.
constexpr uint64_t kMaxBatchBytes = 16 << 20;
constexpr size_t kMaxBatchKeys = 256;
static_assert(kMaxBatchKeys <= wire::kMaxKeysPerBatch);
constexpr Duration kReportTimeout = seconds(1);

io::Task<void> Report(io::Loop& loop, std::shared_ptr<cluster::Peer> peer,
                      wire::ReportCorrupt report) {
  const Bytes meta = Encode(report);
  // Lost when the node can't be reached; the next reader reports again.
  (void)co_await peer->Exchange(
      cluster::Lane::kLoad, loop.Now() + kReportTimeout, [&](cluster::Connection& connection) {
        return connection.Send(wire::FrameType::kReportCorrupt, connection.NextRequestId(), meta);
      });
}

}  // namespace

GetCall::GetCall(CallContext& context, std::span<const GetRequest> requests,
                 const LayoutDigest& layout, TimePoint deadline)
    : context_(context),
      requests_(requests),
      layout_(layout),
      deadline_(deadline),
      items_(requests.size()),
      cut_(requests.size()) {
  result_.headers.resize(requests.size());
}

GetResult GetCall::Run() {
  for (;;) {
    anything_asked_ = false;
    const Status status =
        io::RunOnLoop<Status>(context_.shared_loop, [this] { return LoadRound(); });
    if (!status.ok()) {
      for (uint32_t i = 0; i < items_.size(); ++i) {
        if (items_[i].stage == Stage::kWanted) Miss(i, MissReasonOf(status));
      }
      break;
    }
    for (uint32_t i = 0; i < items_.size(); ++i) {
      if (items_[i].stage == Stage::kReceived) Verify(i);
    }
    if (!anything_asked_) break;
  }
  Settle();
  return std::move(result_);
}

io::Task<Status> GetCall::LoadRound() {
  if (cluster_ == nullptr) {
    Result<std::shared_ptr<const Cluster>> cluster = co_await context_.membership.Get(deadline_);
    if (!cluster.ok()) co_return cluster.status();
    cluster_ = *std::move(cluster);
    EMBER_CO_RETURN_IF_ERROR(Place());
  }
  const TimePoint now = context_.loop.Now();
  if (now >= deadline_) co_return DeadlineError("get");
  std::vector<Share> shares(cluster_->peers.size());
  for (uint32_t i = 0; i < cut_; ++i) {
    if (items_[i].stage != Stage::kWanted) continue;
    if (!Assign(i, &shares)) {
      items_[i].stage = Stage::kMissed;
      cut_ = i;
    }
  }
  io::Gate gate;
  for (size_t member = 0; member < shares.size(); ++member) {
    if (shares[member].items.empty()) continue;
    anything_asked_ = true;
    // A node that hangs must leave time to ask the other copy.
    const TimePoint deadline = shares[member].last_chance ? deadline_ : now + (deadline_ - now) / 2;
    gate.Spawn(LoadShare(member, std::move(shares[member]), deadline));
  }
  co_await gate.Close();
  co_return OkStatus();
}

Status GetCall::Place() {
  OwnerList owners(cluster_->view, context_.options.copies);
  for (size_t i = 0; i < items_.size(); ++i) {
    items_[i].owners = owners.Of(requests_[i].ref);
    if (items_[i].owners.empty()) return UnavailableError("the view has no owners");
  }
  return OkStatus();
}

// The best owner not asked yet: first by what the last match said, then by what is outstanding.
bool GetCall::Assign(uint32_t i, std::vector<Share>* shares) {
  Item& item = items_[i];
  const GetRequest& request = requests_[i];
  const bool again = item.asked != 0;
  std::optional<size_t> best;
  std::pair<int, uint64_t> best_cost;
  for (size_t rank = 0; rank < item.owners.size(); ++rank) {
    if (item.asked >> rank & 1) continue;
    const size_t member = item.owners[rank];
    const cluster::Peer& peer = *cluster_->peers[member];
    if (!peer.worth_asking()) {
      item.asked |= 1u << rank;
      Miss(i, MissReason::kLostNode);
      continue;
    }
    const CopyHints::Hint hint = context_.hints.Find(request.ref.key, rank);
    const int order = hint == CopyHints::Hint::kPresent   ? 0
                      : hint == CopyHints::Hint::kUnknown ? 1
                                                          : 2;
    const std::pair cost(order, peer.outstanding_bytes + (*shares)[member].bytes);
    if (!best || cost < best_cost) {
      best = rank;
      best_cost = cost;
    }
  }
  if (!best) return false;
  if (again) context_.metrics.failovers.Add();
  item.asked |= 1u << *best;
  item.rank = *best;
  Share& share = (*shares)[item.owners[*best]];
  share.items.push_back(i);
  share.bytes += request.buffer.size();
  share.last_chance |= Exhausted(item);
  return true;
}

io::Task<void> GetCall::LoadShare(size_t member, Share share, TimePoint deadline) {
  const std::shared_ptr<cluster::Peer> peer = cluster_->peers[member];
  peer->outstanding_bytes += share.bytes;
  const Status status = co_await peer->Exchange(
      cluster::Lane::kLoad, deadline,
      [&](cluster::Connection& connection) { return LoadOn(connection, *peer, share); });
  peer->outstanding_bytes -= share.bytes;
  if (status.ok()) co_return;
  for (uint32_t i : share.items) {
    if (items_[i].stage == Stage::kWanted) Miss(i, MissReasonOf(status));
  }
}

io::Task<Status> GetCall::LoadOn(cluster::Connection& connection, const cluster::Peer& peer,
                                 const Share& share) {
  size_t next = 0;
  Batch batch;
  EMBER_CO_RETURN_IF_ERROR(co_await Ask(connection, share, &next, &batch));
  while (!batch.items.empty()) {
    Batch ahead;
    for (uint32_t index = 0; index < batch.items.size(); ++index) {
      const Status status =
          co_await Receive(connection, peer, batch.request_id, index, batch.items[index]);
      // What comes for the next batch would be taken for another request's answer.
      if (!status.ok()) co_return ahead.items.empty() ? status : connection.Break(status);
      // A node that answers this one will answer the next.
      if (index == 0) {
        EMBER_CO_RETURN_IF_ERROR(co_await Ask(connection, share, &next, &ahead));
      }
    }
    batch = std::move(ahead);
  }
  co_return OkStatus();
}

io::Task<Status> GetCall::Ask(cluster::Connection& connection, const Share& share, size_t* next,
                              Batch* batch) const {
  *batch = {connection.NextRequestId(), NextBatch(share, next)};
  if (batch->items.empty()) co_return OkStatus();
  wire::Get get;
  for (uint32_t i : batch->items) get.items.push_back({.key = requests_[i].ref.key});
  const Bytes meta = Encode(get);
  co_return co_await connection.Send(wire::FrameType::kGet, batch->request_id, meta);
}

// What is still wanted of the share from `next` on, within the limits of one message.
std::vector<uint32_t> GetCall::NextBatch(const Share& share, size_t* next) const {
  std::vector<uint32_t> batch;
  uint64_t bytes = 0;
  for (; *next < share.items.size() && batch.size() < kMaxBatchKeys; ++*next) {
    const uint32_t i = share.items[*next];
    if (i >= cut_ || items_[i].stage != Stage::kWanted) continue;
    const uint64_t size = requests_[i].buffer.size();
    if (!batch.empty() && bytes + size > kMaxBatchBytes) break;
    bytes += size;
    batch.push_back(i);
  }
  return batch;
}

io::Task<Status> GetCall::Receive(cluster::Connection& connection, const cluster::Peer& peer,
                                  uint64_t request_id, uint32_t index, uint32_t i) {
  Result<cluster::Reply> reply =
      co_await connection.ReadReply(wire::FrameType::kGetReply, request_id);
  if (!reply.ok()) co_return reply.status();
  Result<wire::GetReply> got = wire::Decode<wire::GetReply>(reply->meta);
  if (!got.ok()) co_return connection.Break(UnavailableError("a get reply that can't be read"));
  const uint64_t length = reply->header.payload_length;
  if (got->index != index || (got->miss != MissReason::kNone && length != 0)) {
    co_return connection.Break(UnavailableError("a get reply that was not asked for"));
  }
  Item& item = items_[i];
  const MutableByteSpan buffer = requests_[i].buffer;
  if (got->miss == MissReason::kNone && length == buffer.size() && got->offset == 0) {
    const bool hash_now = !context_.shared_loop.crowded();
    ChecksumStream hash;
    EMBER_CO_RETURN_IF_ERROR(co_await connection.ReadPayload(buffer, hash_now ? &hash : nullptr));
    item.checksum = hash_now ? std::optional(hash.Digest()) : std::nullopt;
    item.header = std::move(got->header);
    item.stage = Stage::kReceived;
    co_return OkStatus();
  }
  // A copy of another length than was matched can't be what the caller wants.
  EMBER_CO_RETURN_IF_ERROR(co_await connection.SkipPayload());
  context_.hints.Note(requests_[i].ref.key, item.rank, false);
  Miss(i,
       got->miss == MissReason::kNone ? MissReason::kLayoutDiffers : MissReasonAt(peer, got->miss));
  if (Exhausted(item)) {
    item.stage = Stage::kMissed;
    cut_ = std::min<size_t>(cut_, i);
  }
  co_return OkStatus();
}

void GetCall::Verify(uint32_t i) {
  Item& item = items_[i];
  SegmentHeader header;
  const MissReason why = WhyNot(i, &header);
  if (why == MissReason::kNone) {
    item.stage = Stage::kVerified;
    result_.bytes += requests_[i].buffer.size();
    result_.headers[i] = std::move(header);
    return;
  }
  item.stage = Stage::kWanted;
  Miss(i, why);
  if (why != MissReason::kCorrupt) return;
  context_.metrics.corrupt.Add();
  context_.shared_loop.Post(
      [&context = context_, peer = cluster_->peers[item.owners[item.rank]],
       report = wire::ReportCorrupt{requests_[i].ref.key, header.generation}] {
        context.Spawn(Report(context.loop, peer, report));
      });
}

MissReason GetCall::WhyNot(uint32_t i, SegmentHeader* header) const {
  const GetRequest& request = requests_[i];
  Result<SegmentHeader> decoded = DecodeSegmentHeader(items_[i].header);
  if (!decoded.ok()) return MissReason::kCorrupt;
  *header = *std::move(decoded);
  if (header->layout != layout_) return MissReason::kLayoutDiffers;
  if (!CheckHeader(*header, request.ref, request.tokens, layout_).ok()) {
    return MissReason::kOtherSalt;
  }
  return Intact(i, *header) ? MissReason::kNone : MissReason::kCorrupt;
}

bool GetCall::Intact(uint32_t i, const SegmentHeader& header) const {
  const ByteSpan buffer = requests_[i].buffer;
  if (header.payload_length != buffer.size()) return false;
  const std::optional<Checksum>& received = items_[i].checksum;
  return (received ? *received : Xxh3Of(buffer)) == header.checksum;
}

void GetCall::Settle() {
  const auto had = [this](size_t i) { return items_[i].stage == Stage::kVerified; };
  while (result_.usable < items_.size() && had(result_.usable)) ++result_.usable;
  const MissReason first =
      result_.usable < items_.size() ? items_[result_.usable].miss : MissReason::kNone;
  for (size_t i = 0; i < items_.size(); ++i) {
    const bool unasked = items_[i].miss == MissReason::kNone;
    result_.misses.push_back(had(i) ? MissReason::kNone : unasked ? first : items_[i].miss);
  }
}

}  // namespace ember
