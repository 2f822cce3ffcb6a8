#include "client/grpc_client/grpc_store_client.h"

#include <algorithm>
#include <condition_variable>
#include <future>
#include <map>

#include "client/grpc_client/grpc_lease_returns.h"
#include "client/grpc_client/grpc_membership.h"
#include "client/grpc_client/segment_pieces.h"
#include "client/store_client/call_context.h"
#include "client/store_client/segment_seal.h"
#include "proto/wire/limits.h"

namespace ember {
namespace {

constexpr size_t kPutSegmentsPerStream = 1024;  // so that a refused stream costs no more than that

using Shares = std::map<size_t, std::vector<uint32_t>>;  // member -> segments

// Runs `work` for each share, each on a thread of its own.
template <typename Work>
void ForEach(const Shares& shares, Work work) {
  std::vector<std::future<void>> running;
  for (const auto& [member, items] : shares) {
    running.push_back(std::async(std::launch::async, work, member, std::cref(items)));
  }
  for (auto& one : running) one.get();
}

}  // namespace

class GrpcStoreClient final : public StoreClient {
 public:
  explicit GrpcStoreClient(GrpcStoreClientOptions options)
      : options_(std::move(options)), membership_(options_.nodes) {}
  ~GrpcStoreClient() override { Shutdown(); }

  MatchResult Match(std::span<const SegmentRef> segments, Duration timeout,
                    const MatchOptions& options) override;
  GetResult Get(std::span<const GetRequest> requests, const LayoutDigest& layout,
                Duration timeout) override;
  std::vector<PutOutcome> Put(std::span<const PutRequest> requests, const LayoutDigest& layout,
                              Duration timeout, const PutOptions& options) override;
  std::vector<NodeState> Nodes() override;
  void Shutdown() override;

 private:
  // One call from its start to its return.
  class CallScope {
   public:
    explicit CallScope(GrpcStoreClient* client) : client_(client) {
      const std::lock_guard lock(client_->mutex_);
      ++client_->calls_;
    }
    ~CallScope() {
      const std::lock_guard lock(client_->mutex_);
      if (--client_->calls_ == 0) client_->no_calls_.notify_all();
    }
    CallScope(const CallScope&) = delete;

   private:
    GrpcStoreClient* const client_;
  };

  void Load(const GrpcCluster& cluster, size_t member, const std::vector<uint32_t>& items,
            std::span<const GetRequest> requests, const LayoutDigest& layout, TimePoint deadline,
            GetResult* result) const;
  Status Push(const GrpcCluster& cluster, size_t member, std::span<const uint32_t> items,
              std::span<const PutRequest> requests, const std::vector<Bytes>& headers, AckLevel ack,
              TimePoint deadline, std::mutex* mutex, std::vector<PutOutcome>* outcomes) const;

  const GrpcStoreClientOptions options_;
  GrpcMembership membership_;
  const std::shared_ptr<GrpcLeaseReturns> returns_ = std::make_shared<GrpcLeaseReturns>();
  std::mutex mutex_;
  std::condition_variable no_calls_;
  uint32_t calls_ = 0;  // under mutex_
};

Result<std::unique_ptr<StoreClient>> MakeGrpcStoreClient(GrpcStoreClientOptions options) {
  if (options.nodes.empty()) return InvalidError("no store node's gRPC address was given");
  if (options.copies < 1 || options.copies > kMaxCopies) {
    return InvalidError("copies must be 1 to " + std::to_string(kMaxCopies));
  }
  if (options.name.size() > wire::kMaxNameBytes || options.tenant.size() > wire::kMaxNameBytes) {
    return InvalidError("a name longer than " + std::to_string(wire::kMaxNameBytes) + " bytes");
  }
  return std::unique_ptr<StoreClient>(std::make_unique<GrpcStoreClient>(std::move(options)));
}

// ---- match

MatchResult GrpcStoreClient::Match(std::span<const SegmentRef> segments, Duration timeout,
                                   const MatchOptions& options) {
  const CallScope scope(this);
  const TimePoint deadline = std::chrono::steady_clock::now() + timeout;
  MatchResult result;
  result.segments.assign(segments.size(), {.miss = MissReason::kLostNode});
  const auto cluster = membership_.Get(deadline);
  if (!cluster.ok()) return result;
  Shares shares;
  OwnerList owners((*cluster)->view, options_.copies);
  for (uint32_t i = 0; i < segments.size(); ++i) {
    for (size_t member : owners.Of(segments[i])) shares[member].push_back(i);
  }
  std::vector<SegmentMatch> found(segments.size(), {.miss = MissReason::kNeverStored});
  std::vector<GrpcLeaseReturns::Return> leases;
  std::mutex mutex;
  const auto note = [&](uint32_t i, MissReason miss, uint64_t bytes) {
    SegmentMatch& segment = found[i];
    if (segment.miss == MissReason::kNone) return;
    if (miss == MissReason::kNone) segment.payload_bytes = bytes;
    segment.miss = miss == MissReason::kNone ? miss : MoreTelling(segment.miss, miss);
  };
  ForEach(shares, [&](size_t member, const std::vector<uint32_t>& items) {
    const std::shared_ptr<GrpcNode>& node = (*cluster)->nodes[member];
    for (size_t at = 0; at < items.size(); at += wire::kMaxKeysPerBatch) {
      const auto batch =
          std::span(items).subspan(at, std::min(items.size() - at, wire::kMaxKeysPerBatch));
      rpc::MatchSegmentsRequest request;
      request.set_lease_ms(LeaseMs(options.lease));
      for (uint32_t i : batch) request.add_names(NameBytes(segments[i]));
      const Result<rpc::MatchSegmentsReply> reply =
          node == nullptr ? UnavailableError("") : node->Match(request, deadline);
      const std::lock_guard lock(mutex);
      if (reply.ok() && reply->leases_size() > 0) {
        leases.push_back({node, {}});
        *leases.back().leases.mutable_leases() = reply->leases();
      }
      for (size_t k = 0; k < batch.size(); ++k) {
        if (!reply.ok()) {
          note(batch[k], MissReasonOf(reply.status()), 0);
          continue;
        }
        const rpc::MatchedSegment& segment = reply->segments(static_cast<int>(k));
        note(batch[k], MissReasonFromWire(static_cast<uint8_t>(std::min(segment.miss(), 255u))),
             segment.payload_length());
      }
    }
  });
  result.segments = std::move(found);
  while (result.usable < segments.size() &&
         result.segments[result.usable].miss == MissReason::kNone) {
    ++result.usable;
  }
  if (!leases.empty()) {
    result.lease =
        Lease([returns = returns_, leases = std::move(leases)] { returns->Add(leases); });
  }
  return result;
}

// ---- get

// The segments of one owner, one after the other; what fails stays missed.
void GrpcStoreClient::Load(const GrpcCluster& cluster, size_t member,
                           const std::vector<uint32_t>& items, std::span<const GetRequest> requests,
                           const LayoutDigest& layout, TimePoint deadline,
                           GetResult* result) const {
  const std::shared_ptr<GrpcNode>& node = cluster.nodes[member];
  const auto miss = [&](uint32_t i, MissReason reason) {
    result->misses[i] = MoreTelling(result->misses[i], reason);
  };
  Status status = node == nullptr ? UnavailableError("") : OkStatus();
  size_t done = 0;
  while (status.ok() && done < items.size()) {
    rpc::GetSegmentsRequest request;
    const size_t first = done;
    for (size_t k = first; k < items.size() && k - first < wire::kMaxKeysPerBatch; ++k) {
      const GetRequest& wanted = requests[items[k]];
      rpc::GetSegment* item = request.add_items();
      item->set_name(NameBytes(wanted.ref));
      if (!wanted.offset) continue;
      item->set_offset(*wanted.offset);
      item->set_length(wanted.buffer.size());
    }
    PieceReceiver receiver(layout);
    status = node->Get(request, deadline, [&](const rpc::GetPiece& piece) {
      if (done >= first + static_cast<size_t>(request.items_size()) ||
          piece.index() != done - first) {
        return UnavailableError("a piece that was not asked for");
      }
      const uint32_t i = items[done];
      Result<bool> whole = receiver.Take(piece, requests[i]);
      if (!whole.ok()) return whole.status();
      if (!*whole) return OkStatus();
      ++done;
      const MissReason why = receiver.Verify(requests[i], &result->headers[i]);
      if (why == MissReason::kCorrupt) {
        rpc::ReportCorruptRequest report;
        report.set_name(NameBytes(requests[i].ref));
        report.set_generation(GenerationBytes(result->headers[i].generation));
        node->ReportCorrupt(report);
      }
      if (why == MissReason::kNone) {
        result->misses[i] = MissReason::kNone;
      } else {
        result->headers[i] = {};
        miss(i, why);
      }
      return OkStatus();
    });
    if (status.ok() && done < first + static_cast<size_t>(request.items_size())) {
      status = UnavailableError("a get that ended early");
    }
  }
  for (; done < items.size(); ++done) miss(items[done], MissReasonOf(status));
}

GetResult GrpcStoreClient::Get(std::span<const GetRequest> requests, const LayoutDigest& layout,
                               Duration timeout) {
  const CallScope scope(this);
  const TimePoint deadline = std::chrono::steady_clock::now() + timeout;
  GetResult result;
  for (const GetRequest& request : requests) {
    EMBER_CHECK(!request.offset || !request.buffer.empty(), "a range has bytes");
  }
  result.headers.resize(requests.size());
  result.misses.assign(requests.size(), MissReason::kLostNode);
  const auto cluster = membership_.Get(deadline);
  if (!cluster.ok()) return result;
  result.misses.assign(requests.size(), MissReason::kNeverStored);
  std::vector<std::vector<size_t>> owners;
  OwnerList list((*cluster)->view, options_.copies);
  for (const GetRequest& request : requests) owners.push_back(list.Of(request.ref));
  std::vector<bool> here(requests.size());
  for (size_t rank = 0; rank < options_.copies; ++rank) {
    Shares shares;
    for (uint32_t i = 0; i < requests.size(); ++i) {
      if (!here[i] && rank < owners[i].size()) shares[owners[i][rank]].push_back(i);
    }
    if (shares.empty()) break;
    // A node that hangs must leave time to ask the other copy.
    const TimePoint now = std::chrono::steady_clock::now();
    const TimePoint until = rank + 1 < options_.copies ? now + (deadline - now) / 2 : deadline;
    ForEach(shares, [&](size_t member, const std::vector<uint32_t>& items) {
      Load(**cluster, member, items, requests, layout, until, &result);
    });
    for (const auto& [member, items] : shares) {
      for (uint32_t i : items) here[i] = result.headers[i].payload_length > 0;
    }
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    if (here[i]) result.bytes += requests[i].buffer.size();
  }
  while (result.usable < requests.size() && here[result.usable]) ++result.usable;
  return result;
}

// ---- put

// What the owner lacks of these, in one stream; of what it has, the header where it is to make it
// durable.
Status GrpcStoreClient::Push(const GrpcCluster& cluster, size_t member,
                             std::span<const uint32_t> items, std::span<const PutRequest> requests,
                             const std::vector<Bytes>& headers, AckLevel ack, TimePoint deadline,
                             std::mutex* mutex, std::vector<PutOutcome>* outcomes) const {
  const std::shared_ptr<GrpcNode>& node = cluster.nodes[member];
  if (node == nullptr) {
    return UnavailableError("node " + cluster.view.members[member].id +
                            " is not among the gRPC addresses, or does not answer");
  }
  rpc::MatchSegmentsRequest question;
  for (uint32_t i : items) question.add_names(NameBytes(requests[i].ref));
  const Result<rpc::MatchSegmentsReply> known = node->Match(question, deadline);
  if (!known.ok()) return known.status();
  std::vector<uint32_t> sent;
  std::vector<ByteSpan> payloads;
  for (size_t k = 0; k < items.size(); ++k) {
    const bool has = known->segments(static_cast<int>(k)).miss() == 0;
    if (!has || ack == AckLevel::kDisk) {
      sent.push_back(items[k]);
      payloads.push_back(has ? ByteSpan() : requests[items[k]].payload);
      continue;
    }
    const std::lock_guard lock(*mutex);
    ++(*outcomes)[items[k]].copies;
  }
  if (sent.empty()) return OkStatus();
  const Result<rpc::PutSegmentsReply> reply =
      node->Put(deadline, [&](const std::function<bool(const rpc::PutPiece&)>& write) {
        rpc::PutPiece first;
        first.mutable_options()->set_ack(static_cast<uint32_t>(ack));
        if (!write(first)) return;
        for (size_t k = 0; k < sent.size(); ++k) {
          if (!SendPieces(headers[sent[k]], payloads[k], write)) return;
        }
      });
  if (!reply.ok()) return reply.status();
  if (reply->verdicts_size() != static_cast<int>(sent.size())) {
    return UnavailableError("a put reply of another length");
  }
  const std::lock_guard lock(*mutex);
  for (size_t k = 0; k < sent.size(); ++k) {
    const rpc::PutVerdict& verdict = reply->verdicts(static_cast<int>(k));
    PutOutcome& outcome = (*outcomes)[sent[k]];
    outcome.was_there = outcome.was_there && verdict.had();
    const StatusCode code = StatusCodeFromWire(verdict.code());
    if (code == StatusCode::kOk) {
      ++outcome.copies;
      const auto level = static_cast<uint8_t>(std::min(verdict.level(), 255u));
      outcome.disk_copies += AckLevelFromWire(level) == AckLevel::kDisk;
    } else {
      outcome.status = Status(code, "node " + cluster.view.members[member].id +
                                        " refused it: " + std::string(StatusCodeName(code)));
    }
  }
  return OkStatus();
}

std::vector<PutOutcome> GrpcStoreClient::Put(std::span<const PutRequest> requests,
                                             const LayoutDigest& layout, Duration timeout,
                                             const PutOptions& options) {
  const CallScope scope(this);
  const TimePoint deadline = std::chrono::steady_clock::now() + timeout;
  std::vector<PutOutcome> outcomes(requests.size());
  std::vector<Bytes> headers(requests.size());
  SystemRandom random;
  for (size_t i = 0; i < requests.size(); ++i) {
    outcomes[i].status = CheckPut(requests[i]);
    if (!outcomes[i].status.ok()) continue;
    headers[i] = SealedHeader(requests[i], layout, options_.name, options_.tenant, random);
  }
  const auto cluster = membership_.Get(deadline);
  if (!cluster.ok()) {
    for (PutOutcome& outcome : outcomes) {
      if (outcome.status.ok()) outcome.status = cluster.status();
    }
    return outcomes;
  }
  Shares shares;
  std::vector<uint32_t> wanted(requests.size());
  OwnerList owners((*cluster)->view, options_.copies);
  for (uint32_t i = 0; i < requests.size(); ++i) {
    if (headers[i].empty()) continue;
    outcomes[i].was_there = true;  // until some owner lacks it
    for (size_t member : owners.Of(requests[i].ref)) {
      shares[member].push_back(i);
      ++wanted[i];
    }
  }
  std::mutex mutex;
  ForEach(shares, [&](size_t member, const std::vector<uint32_t>& items) {
    for (size_t at = 0; at < items.size(); at += kPutSegmentsPerStream) {
      const auto batch =
          std::span(items).subspan(at, std::min(items.size() - at, kPutSegmentsPerStream));
      const Status status = Push(**cluster, member, batch, requests, headers, options.ack, deadline,
                                 &mutex, &outcomes);
      if (status.ok()) continue;
      const std::lock_guard lock(mutex);
      for (uint32_t i : std::span(items).subspan(at)) {
        outcomes[i].status = status;
        outcomes[i].was_there = false;
      }
      return;
    }
  });
  for (size_t i = 0; i < requests.size(); ++i) {
    if (wanted[i] > 0 && outcomes[i].copies == wanted[i]) outcomes[i].status = OkStatus();
    if (wanted[i] == 0) outcomes[i].was_there = false;
  }
  return outcomes;
}

// ---- nodes and end

std::vector<StoreClient::NodeState> GrpcStoreClient::Nodes() {
  const CallScope scope(this);
  return membership_.States();
}

void GrpcStoreClient::Shutdown() {
  returns_->Close();
  membership_.Close();
  std::unique_lock lock(mutex_);
  no_calls_.wait(lock, [this] { return calls_ == 0; });
}

}  // namespace ember
