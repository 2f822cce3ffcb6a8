#include "client/store_client/get_call.h"

#include "client/store_client/hashed_copy.h"
#include "client/store_client/segment_seal.h"
#include "proto/wire/limits.h"

namespace ember {
namespace {

// Between two batches a load notices that its prefix was cut elsewhere. The next one is asked for
// before the last has come; so a request must be small enough to be taken by the kernel's buffers
// while the node is busy sending.
constexpr uint64_t kMaxBatchBytes = 32 << 20;
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
                 const LayoutDigest& layout, TimePoint deadline, std::optional<Duration> lease)
    : context_(context),
      requests_(requests),
      layout_(layout),
      deadline_(deadline),
      in_place_lease_(lease),
      items_(requests.size()),
      cut_(requests.size()) {
  for (const GetRequest& request : requests) {
    EMBER_CHECK(!request.offset || !request.buffer.empty(), "a range has bytes");
    ranges_ |= request.offset.has_value();
  }
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
    if (!in_place_lease_) CopyMapped();
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
  std::vector<Share> shares(cluster_->nodes.size());
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
    gate.Spawn(LoadShare(cluster_->nodes[member], std::move(shares[member]), deadline));
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
    const cluster::NodePeers& node = *cluster_->nodes[member];
    if (!node.Of(request.ref.key.ns, request.ref.placement)->worth_asking()) {
      item.asked |= 1u << rank;
      Miss(i, MissReason::kLostNode);
      continue;
    }
    const CopyHints::Hint hint = context_.hints.Find(request.ref.key, rank);
    const int order = hint == CopyHints::Hint::kPresent   ? 0
                      : hint == CopyHints::Hint::kUnknown ? 1
                                                          : 2;
    const std::pair cost(order, node.outstanding_bytes + (*shares)[member].bytes);
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

io::Task<void> GetCall::LoadShare(std::shared_ptr<cluster::NodePeers> node, Share share,
                                  TimePoint deadline) {
  node->outstanding_bytes += share.bytes;
  if (const Status status = co_await node->Learn(deadline); status.ok()) {
    io::Gate gate;
    for (ShardShare& of_shard :
         ShareByShard(*node, std::move(share.items),
                      [this](uint32_t i) -> const SegmentRef& { return requests_[i].ref; })) {
      gate.Spawn(LoadFrom(std::move(of_shard), deadline));
    }
    co_await gate.Close();
  } else {
    MissAll(share.items, status);
  }
  node->outstanding_bytes -= share.bytes;
}

io::Task<void> GetCall::LoadFrom(ShardShare share, TimePoint deadline) {
  const Status status = co_await share.peer->Exchange(
      cluster::Lane::kLoad, deadline,
      [&](cluster::Connection& connection) { return LoadOn(connection, share); });
  if (!status.ok()) MissAll(share.items, status);
}

void GetCall::MissAll(const std::vector<uint32_t>& items, const Status& status) {
  for (uint32_t i : items) {
    if (items_[i].stage == Stage::kWanted) Miss(i, MissReasonOf(status));
  }
}

io::Task<Status> GetCall::LoadOn(cluster::Connection& connection, const ShardShare& share) {
  Shared shared{ranges_ ? nullptr : share.peer->ArenaOf(connection.hello()), nullptr};
  if (in_place_lease_ && shared.arena == nullptr) {
    unmapped_ = share.peer->map_error().WithContext("node " + share.peer->node_id());
    co_return unmapped_;
  }
  co_return co_await LoadBatches(connection, share, &shared);
}

io::Task<Status> GetCall::LoadBatches(cluster::Connection& connection, const ShardShare& share,
                                      Shared* shared) {
  size_t next = 0;
  Batch batch;
  EMBER_CO_RETURN_IF_ERROR(co_await Ask(connection, share, *shared, &next, &batch));
  while (!batch.items.empty()) {
    Batch ahead;
    for (uint32_t index = 0; index < batch.items.size(); ++index) {
      const Status status = co_await Receive(connection, share.peer, batch, index, shared);
      // What comes for the next batch would be taken for another request's answer.
      if (!status.ok()) co_return ahead.items.empty() ? status : connection.Break(status);
      // A node that answers this one will answer the next.
      if (index == 0) {
        EMBER_CO_RETURN_IF_ERROR(co_await Ask(connection, share, *shared, &next, &ahead));
      }
    }
    batch = std::move(ahead);
  }
  co_return OkStatus();
}

io::Task<Status> GetCall::Ask(cluster::Connection& connection, const ShardShare& share,
                              const Shared& shared, size_t* next, Batch* batch) const {
  const bool in_place = shared.arena != nullptr;
  *batch = {connection.NextRequestId(), NextBatch(share, in_place, next)};
  if (batch->items.empty()) co_return OkStatus();
  wire::Get get;
  get.items.reserve(batch->items.size());
  for (uint32_t i : batch->items) {
    const GetRequest& request = requests_[i];
    get.items.push_back({.key = request.ref.key,
                         .offset = request.offset.value_or(0),
                         .length = request.offset ? request.buffer.size() : 0});
  }
  if (in_place) {
    const TimePoint now = context_.loop.Now();
    const auto lease = std::clamp<Duration>(in_place_lease_.value_or(deadline_ - now),
                                            milliseconds(1), milliseconds(wire::kMaxLeaseMs));
    get.in_place_lease_ms = static_cast<uint32_t>(ToMilliseconds(lease));
    // The node's clock starts later.
    batch->leased_until = now + milliseconds(get.in_place_lease_ms);
  }
  const Bytes returns = context_.returns->TakeFrames(share.peer.get());
  const Bytes meta = Encode(get);
  const auto header = wire::EncodeFrameHeader(
      {wire::FrameType::kGet, batch->request_id, static_cast<uint32_t>(meta.size()), 0});
  const ByteSpan parts[] = {returns, header, meta};
  co_return co_await connection.SendParts(parts);
}

// What is still wanted of the share from `next` on, within the limits of one message.
std::vector<uint32_t> GetCall::NextBatch(const ShardShare& share, bool in_place,
                                         size_t* next) const {
  std::vector<uint32_t> batch;
  uint64_t bytes = 0;
  for (; *next < share.items.size() && batch.size() < kMaxBatchKeys; ++*next) {
    const uint32_t i = share.items[*next];
    if (i >= cut_ || items_[i].stage != Stage::kWanted) continue;
    const uint64_t size = requests_[i].buffer.size();
    if (!in_place && !batch.empty() && bytes + size > kMaxBatchBytes) break;
    bytes += size;
    batch.push_back(i);
  }
  return batch;
}

io::Task<Status> GetCall::Receive(cluster::Connection& connection,
                                  const std::shared_ptr<cluster::Peer>& peer, const Batch& batch,
                                  uint32_t index, Shared* shared) {
  const uint32_t i = batch.items[index];
  Result<cluster::Reply> reply =
      co_await connection.ReadReply(wire::FrameType::kGetReply, batch.request_id);
  if (!reply.ok()) co_return reply.status();
  Result<wire::GetReply> got = wire::Decode<wire::GetReply>(reply->meta);
  if (!got.ok()) co_return connection.Break(UnavailableError("a get reply that can't be read"));
  const uint64_t length = reply->header.payload_length;
  const bool placed = got->lease_id != 0;
  if (got->index != index || (got->miss != MissReason::kNone && (length != 0 || placed)) ||
      (placed && (length != 0 || shared->arena == nullptr))) {
    co_return connection.Break(UnavailableError("a get reply that was not asked for"));
  }
  Item& item = items_[i];
  const MutableByteSpan buffer = requests_[i].buffer;
  if (placed) {
    const Status status = ReceivePlace(*got, peer, batch.leased_until, shared, &item);
    if (!status.ok()) co_return connection.Break(status);
    if (in_place_lease_ || item.mapped.size() == buffer.size()) {
      item.header = std::move(got->header);
      item.stage = Stage::kReceived;
      co_return OkStatus();
    }
    item.lease = nullptr;
  } else if (in_place_lease_ && got->miss == MissReason::kNone) {
    got->miss = MissReason::kBusy;  // more than the node may keep in place for its readers
  } else if (got->miss == MissReason::kNone && length == buffer.size() &&
             got->offset == requests_[i].offset.value_or(0)) {
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
  Miss(i, got->miss == MissReason::kNone ? MissReason::kLayoutDiffers
                                         : MissReasonAt(*peer, got->miss));
  if (Exhausted(item)) {
    item.stage = Stage::kMissed;
    cut_ = std::min<size_t>(cut_, i);
  }
  co_return OkStatus();
}

Status GetCall::ReceivePlace(const wire::GetReply& got, const std::shared_ptr<cluster::Peer>& peer,
                             TimePoint leased_until, Shared* shared, Item* item) {
  // Whatever else is wrong, the lease goes back.
  if (shared->lease == nullptr || shared->lease->id() != got.lease_id) {
    shared->lease = std::make_shared<ReadLease>(shared->arena, peer, got.lease_id, leased_until,
                                                context_.returns);
  }
  const std::optional<ByteSpan> mapped = shared->arena->At(got.place);
  if (!mapped || got.offset != 0) return UnavailableError("a place outside of the shared memory");
  item->mapped = *mapped;
  item->lease = shared->lease;
  return OkStatus();
}

void GetCall::CopyMapped() {
  std::vector<Item*> items;
  std::vector<HashedCopy> copies;
  for (uint32_t i = 0; i < items_.size(); ++i) {
    if (items_[i].stage != Stage::kReceived || items_[i].lease == nullptr) continue;
    items.push_back(&items_[i]);
    copies.push_back({items_[i].mapped, requests_[i].buffer});
  }
  RunCopies(copies);
  for (size_t k = 0; k < items.size(); ++k) items[k]->checksum = copies[k].checksum;
}

void GetCall::Verify(uint32_t i) {
  Item& item = items_[i];
  SegmentHeader header;
  MissReason why = WhyNot(i, &header);
  if (why == MissReason::kNone) {
    item.stage = Stage::kVerified;
    const uint64_t bytes = in_place_lease_ ? header.payload_length : requests_[i].buffer.size();
    result_.bytes += bytes;
    if (item.lease != nullptr) mapped_bytes_ += bytes;
    if (!in_place_lease_) item.lease = nullptr;
    result_.headers[i] = std::move(header);
    return;
  }
  // Other bytes after the lease are nobody's fault.
  const std::shared_ptr<const ReadLease> lease = std::move(item.lease);
  const bool late = lease != nullptr && context_.loop.Now() >= lease->deadline();
  if (why == MissReason::kCorrupt && late) why = MissReason::kDeadline;
  item.stage = Stage::kWanted;
  Miss(i, why);
  if (why != MissReason::kCorrupt) return;
  context_.metrics.corrupt.Add();
  const BlockHash& placement = requests_[i].ref.placement;
  context_.shared_loop.Post(
      [&context = context_, node = cluster_->nodes[item.owners[item.rank]], placement,
       report = wire::ReportCorrupt{requests_[i].ref.key, header.generation}] {
        context.Spawn(Report(context.loop, node->Of(report.key.ns, placement), report));
      });
}

MissReason GetCall::WhyNot(uint32_t i, SegmentHeader* header) const {
  const GetRequest& request = requests_[i];
  const MissReason why = OpenHeader(items_[i].header, request.ref, request.tokens, layout_, header);
  if (why != MissReason::kNone) return why;
  const Item& item = items_[i];
  const bool intact = in_place_lease_ ? header->payload_length == item.mapped.size()
                                      : IsIntact(request, *header, item.checksum);
  return intact ? MissReason::kNone : MissReason::kCorrupt;
}

MappedSegment GetCall::TakeSegment(uint32_t i, SegmentHeader header) {
  Item& item = items_[i];
  if (item.stage != Stage::kVerified) return {};
  return {std::move(item.lease), item.mapped, std::move(header)};
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
