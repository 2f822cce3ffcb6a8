#include "client/store_client/membership.h"

#include <algorithm>

namespace ember {
namespace {

// A refused connect costs microseconds, so a late store is found soon.
constexpr Duration kMaxPause = milliseconds(250);

// By value: the node must live until its tasks have ended.
io::Task<void> CloseNode(std::shared_ptr<cluster::NodePeers> node) { co_await node->Close(); }

}  // namespace

// A call that waits for the first view; lives in its coroutine's frame.
struct Membership::Waiter {
  Membership* membership;
  TimePoint deadline;
  std::coroutine_handle<> caller = nullptr;
  std::unique_ptr<io::Loop::Timer> timer = nullptr;

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    caller = handle;
    membership->waiters_.push_back(this);
    timer = membership->loop_.StartTimer(deadline, [this] { Wake(); });
  }
  void await_resume() {}
  void Wake() {
    membership->waiters_.remove(this);
    timer.reset();
    membership->loop_.Post([handle = caller] { handle.resume(); });
  }
};

Membership::Membership(io::Loop& loop, const StoreClientOptions& options,
                       std::function<void()> on_change)
    : loop_(loop), options_(options), on_change_(std::move(on_change)) {
  for (const io::Endpoint& seed : options.seeds) {
    seeds_.push_back({seed, UnavailableError("not asked yet")});
  }
}

void Membership::Start() { gate_.Spawn(Discover()); }

io::Task<void> Membership::Discover() {
  Duration pause = std::min(options_.back_off_min, kMaxPause);
  while (!closed_ && cluster_ == nullptr) {
    asking_ = true;
    io::Gate round;
    for (SeedState& seed : seeds_) round.Spawn(AskSeed(&seed));
    co_await round.Close();
    asking_ = false;
    WakeWaiters();
    if (closed_ || cluster_ != nullptr) break;
    co_await loop_.Sleep(pause);
    pause = std::min(pause * 2, kMaxPause);
  }
}

io::Task<void> Membership::AskSeed(SeedState* seed) {
  Result<std::unique_ptr<cluster::Connection>> dialed =
      co_await cluster::Connection::Dial(loop_, {.endpoint = seed->endpoint,
                                                 .client_name = options_.name,
                                                 .timeout = options_.connect_timeout});
  seed->status = dialed.status();
  if (!dialed.ok() || closed_ || cluster_ != nullptr) co_return;
  seed->status = Adopt((*dialed)->hello(), seed->endpoint);
}

io::Task<Result<std::shared_ptr<const Cluster>>> Membership::Get(TimePoint deadline) {
  if (cluster_ == nullptr && asking_ && !closed_) co_await Waiter{this, deadline};
  if (closed_) co_return CancelledError("the client is shut down");
  if (cluster_ != nullptr) co_return cluster_;
  co_return WhyNone();
}

Status Membership::WhyNone() const {
  if (asking_) return DeadlineError("no store node answered in time");
  std::string why = "no store node can be reached";
  for (const SeedState& seed : seeds_) why += "; " + seed.status.ToString();
  return UnavailableError(why);
}

Status Membership::Adopt(const wire::HelloReply& hello, const io::Endpoint& from) {
  std::vector<wire::Member> members = hello.members;
  // A node without a list is a cluster of one.
  if (members.empty()) members = {{.id = hello.node_id, .host = from.host, .port = from.port}};
  Result<cluster::View> view = cluster::CheckedView(hello.view_number, std::move(members));
  if (!view.ok()) return view.status().WithContext("view of node " + hello.node_id);
  if (cluster_ != nullptr && (view->number < cluster_->view.number || *view == cluster_->view)) {
    return OkStatus();
  }
  auto next = std::make_shared<Cluster>();
  next->view = *std::move(view);
  for (const wire::Member& member : next->view.members) next->nodes.push_back(NodeOf(member));
  const std::shared_ptr<const Cluster> old = std::exchange(cluster_, std::move(next));
  if (old != nullptr) Retire(*old);
  on_change_();
  WakeWaiters();
  return OkStatus();
}

// The one that is known already, if it is the same node at the same address.
std::shared_ptr<cluster::NodePeers> Membership::NodeOf(const wire::Member& member) {
  const io::Endpoint endpoint{member.host, member.port};
  if (cluster_ != nullptr) {
    for (const auto& node : cluster_->nodes) {
      if (node->node_id() == member.id && node->endpoint() == endpoint) return node;
    }
  }
  cluster::PeerOptions options{.client_name = options_.name,
                               .connect_timeout = options_.connect_timeout,
                               .back_off_min = options_.back_off_min,
                               .back_off_max = options_.back_off_max,
                               .map_memory = options_.map_memory};
  return std::make_shared<cluster::NodePeers>(loop_, endpoint, member.id, options,
                                              [this, endpoint](const wire::HelloReply& hello) {
                                                // A bad view changes nothing; the connection that
                                                // brought it still serves its own keys.
                                                if (!closed_) (void)Adopt(hello, endpoint);
                                              });
}

void Membership::Retire(const Cluster& old) {
  for (const auto& node : old.nodes) {
    if (std::ranges::find(cluster_->nodes, node) == cluster_->nodes.end()) {
      gate_.Spawn(CloseNode(node));
    }
  }
}

void Membership::WakeWaiters() {
  while (!waiters_.empty()) waiters_.front()->Wake();
}

io::Task<void> Membership::Close() {
  closed_ = true;
  WakeWaiters();
  if (cluster_ != nullptr) {
    for (const auto& node : cluster_->nodes) gate_.Spawn(CloseNode(node));
  }
  co_await gate_.Close();
}

}  // namespace ember
