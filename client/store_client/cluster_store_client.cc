#include "client/store_client/cluster_store_client.h"

#include "client/store_client/get_call.h"
#include "client/store_client/match_call.h"
#include "client/store_client/put_call.h"
#include "proto/wire/limits.h"

namespace ember {
namespace {

Status Validate(const StoreClientOptions& options) {
  if (options.seeds.empty()) return InvalidError("no store node's address was given");
  for (const io::Endpoint& seed : options.seeds) {
    if (seed.host.empty() || seed.port == 0) {
      return InvalidError("store address \"" + seed.ToString() + "\" has no host or no port");
    }
  }
  if (options.copies < 1 || options.copies > kMaxCopies) {
    return InvalidError("copies must be 1 to " + std::to_string(kMaxCopies));
  }
  if (options.name.size() > wire::kMaxNameBytes || options.tenant.size() > wire::kMaxNameBytes) {
    return InvalidError("a name longer than " + std::to_string(wire::kMaxNameBytes) + " bytes");
  }
  if (options.connect_timeout <= Duration::zero() || options.back_off_min <= Duration::zero() ||
      options.back_off_max < options.back_off_min) {
    return InvalidError("connect timeout and back-off must be positive, and in order");
  }
  return OkStatus();
}

// Far enough for anybody, and no overflow.
TimePoint DeadlineAfter(TimePoint start, Duration timeout) {
  return start + std::clamp<Duration>(timeout, Duration::zero(), std::chrono::hours(24));
}

constexpr Duration kReturnTimeout = seconds(1);

io::Task<Status> Nothing() { co_return OkStatus(); }

}  // namespace

Result<std::unique_ptr<StoreClient>> StoreClient::Create(StoreClientOptions options) {
  if (Status status = Validate(options); !status.ok()) return status.WithContext("store client");
  Result<std::unique_ptr<io::SharedLoop>> loop =
      io::SharedLoop::Make(options.backend, options.spin);
  if (!loop.ok()) return loop.status();
  return std::unique_ptr<StoreClient>(
      std::make_unique<ClusterStoreClient>(std::move(options), *std::move(loop)));
}

InPlaceResult StoreClient::GetInPlace(std::span<const InPlaceRequest> requests, const LayoutDigest&,
                                      Duration, Duration) {
  InPlaceResult none{.misses = std::vector(requests.size(), MissReason::kLostNode)};
  none.segments.resize(requests.size());
  none.status = UnavailableError("this client reads no shared memory");
  return none;
}

// One call from its start to its return.
class ClusterStoreClient::CallScope {
 public:
  explicit CallScope(ClusterStoreClient* client) : client_(client) {
    const std::lock_guard lock(client_->mutex_);
    ++client_->calls_;
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  ~CallScope() {
    // The client may die as soon as the lock is free, so the news goes out under it.
    const std::lock_guard lock(client_->mutex_);
    if (--client_->calls_ == 0) client_->no_calls_.notify_all();
  }

 private:
  ClusterStoreClient* const client_;
};

ClusterStoreClient::ClusterStoreClient(StoreClientOptions options,
                                       std::unique_ptr<io::SharedLoop> loop)
    : options_(std::move(options)),
      metrics_(options_.metrics != nullptr ? *options_.metrics : own_registry_),
      loop_(std::move(loop)),
      membership_(loop_->loop(), options_,
                  [this] {
                    hints_.Clear();  // ranks mean other owners now
                    metrics_.views.Add();
                  }),
      returns_(std::make_shared<LeaseReturns>(
          [this] { loop_->Post([this] { context_.Spawn(SendReturns()); }); })),
      context_{*loop_, loop_->loop(), options_, metrics_, membership_, hints_, gate_, returns_} {
  loop_->Post([this] { membership_.Start(); });
}

ClusterStoreClient::~ClusterStoreClient() { Shutdown(); }

MatchResult ClusterStoreClient::Match(std::span<const SegmentRef> segments, Duration timeout,
                                      const MatchOptions& options) {
  const CallScope scope(this);
  const TimePoint start = context_.loop.Now();
  MatchResult result =
      std::make_shared<MatchCall>(context_, segments, DeadlineAfter(start, timeout), options)
          ->Run();
  for (const SegmentMatch& segment : result.segments) {
    metrics_.RecordMiss(ClientMetrics::kMatch, segment.miss);
  }
  metrics_.Record(ClientMetrics::kMatch, result.usable, segments.size(),
                  context_.loop.Now() - start);
  return result;
}

GetResult ClusterStoreClient::Get(std::span<const GetRequest> requests, const LayoutDigest& layout,
                                  Duration timeout) {
  const CallScope scope(this);
  const TimePoint start = context_.loop.Now();
  GetCall call(context_, requests, layout, DeadlineAfter(start, timeout));
  GetResult result = call.Run();
  metrics_.bytes_loaded.Add(result.bytes);
  metrics_.bytes_mapped.Add(call.mapped_bytes());
  for (MissReason miss : result.misses) metrics_.RecordMiss(ClientMetrics::kGet, miss);
  metrics_.Record(ClientMetrics::kGet, result.usable, requests.size(), context_.loop.Now() - start);
  return result;
}

InPlaceResult ClusterStoreClient::GetInPlace(std::span<const InPlaceRequest> requests,
                                             const LayoutDigest& layout, Duration timeout,
                                             Duration lease) {
  const CallScope scope(this);
  const TimePoint start = context_.loop.Now();
  std::vector<GetRequest> gets;
  gets.reserve(requests.size());
  for (const InPlaceRequest& request : requests) gets.push_back({request.ref, request.tokens, {}});
  GetCall call(context_, gets, layout, DeadlineAfter(start, timeout), lease);
  GetResult got = call.Run();
  InPlaceResult result{got.usable, std::move(got.misses), {}, call.unmapped()};
  for (uint32_t i = 0; i < gets.size(); ++i) {
    result.segments.push_back(call.TakeSegment(i, std::move(got.headers[i])));
  }
  metrics_.bytes_loaded.Add(got.bytes);
  metrics_.bytes_mapped.Add(call.mapped_bytes());
  for (MissReason miss : result.misses) metrics_.RecordMiss(ClientMetrics::kGet, miss);
  metrics_.Record(ClientMetrics::kGet, result.usable, requests.size(), context_.loop.Now() - start);
  return result;
}

// Leases that no request took along.
io::Task<void> ClusterStoreClient::SendReturns() {
  for (const LeaseReturns::PeerPtr& peer : returns_->Pending()) {
    const Bytes frames = returns_->TakeFrames(peer.get());
    if (frames.empty()) continue;  // a get took them along
    const ByteSpan parts[] = {frames};
    // Lost when the node can't be reached; the leases end by themselves.
    (void)co_await peer->Exchange(
        cluster::Lane::kLoad, context_.loop.Now() + kReturnTimeout,
        [&](cluster::Connection& connection) { return connection.SendParts(parts); });
  }
}

std::vector<PutOutcome> ClusterStoreClient::Put(std::span<const PutRequest> requests,
                                                const LayoutDigest& layout, Duration timeout,
                                                const PutOptions& options) {
  const CallScope scope(this);
  const TimePoint start = context_.loop.Now();
  std::vector<PutOutcome> outcomes =
      PutCall(context_, requests, layout, DeadlineAfter(start, timeout), options).Run();
  const auto stored =
      std::ranges::count_if(outcomes, [](const PutOutcome& outcome) { return outcome.copies > 0; });
  metrics_.Record(ClientMetrics::kPut, static_cast<size_t>(stored), requests.size(),
                  context_.loop.Now() - start);
  return outcomes;
}

std::vector<StoreClient::NodeState> ClusterStoreClient::Nodes() {
  const CallScope scope(this);
  Result<std::vector<NodeState>> nodes =
      io::RunOnLoop<Result<std::vector<NodeState>>>(*loop_, [this] { return ProbeNodes(); });
  return nodes.ok() ? *std::move(nodes) : std::vector<NodeState>();
}

io::Task<Result<std::vector<StoreClient::NodeState>>> ClusterStoreClient::ProbeNodes() {
  const TimePoint deadline = context_.loop.Now() + options_.connect_timeout;
  Result<std::shared_ptr<const Cluster>> cluster = co_await membership_.Get(deadline);
  if (!cluster.ok()) co_return SeedStates();
  io::Gate gate;
  for (const auto& node : (*cluster)->nodes) gate.Spawn(Ping(node->first().get(), deadline));
  co_await gate.Close();
  std::vector<NodeState> nodes;
  for (const auto& node : (*cluster)->nodes) {
    const std::shared_ptr<cluster::Peer>& peer = node->first();
    const bool up = peer->connected();
    nodes.push_back(
        {peer->node_id(), peer->endpoint(), up, up ? "" : peer->last_error().ToString()});
  }
  co_return nodes;
}

io::Task<void> ClusterStoreClient::Ping(cluster::Peer* peer, TimePoint deadline) {
  // What came of it is in the peer's state.
  (void)co_await peer->Exchange(
      cluster::Lane::kLoad, deadline, [](cluster::Connection& connection) -> io::Task<Status> {
        const uint64_t id = connection.NextRequestId();
        EMBER_CO_RETURN_IF_ERROR(co_await connection.Send(wire::FrameType::kPing, id, {}));
        co_return (co_await connection.ReadReply(wire::FrameType::kPong, id)).status();
      });
}

std::vector<StoreClient::NodeState> ClusterStoreClient::SeedStates() const {
  std::vector<NodeState> nodes;
  for (const Membership::SeedState& seed : membership_.seeds()) {
    nodes.push_back({"", seed.endpoint, false, seed.status.ToString()});
  }
  return nodes;
}

void ClusterStoreClient::Shutdown() {
  std::call_once(shutdown_, [this] {
    returns_->Close();
    (void)io::RunOnLoop<Status>(*loop_, [this] { return CloseAll(); });
    {
      std::unique_lock lock(mutex_);
      no_calls_.wait(lock, [this] { return calls_ == 0; });
    }
    // Runs after whatever the last calls have posted.
    (void)io::RunOnLoop<Status>(*loop_, Nothing);
  });
}

io::Task<Status> ClusterStoreClient::CloseAll() {
  co_await SendReturns();
  co_await membership_.Close();
  co_await gate_.Close();
  co_return OkStatus();
}

}  // namespace ember
