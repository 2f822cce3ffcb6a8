#include "client/cluster/node_peers.h"

#include <algorithm>

#include "client/cluster/placement.h"

namespace ember::cluster {
namespace {

// By value: the peer must live until its tasks have ended.
io::Task<void> ClosePeer(std::shared_ptr<Peer> peer) { co_await peer->Close(); }

io::Task<Status> Ping(Connection& connection) {
  const uint64_t id = connection.NextRequestId();
  EMBER_CO_RETURN_IF_ERROR(co_await connection.Send(wire::FrameType::kPing, id, {}));
  co_return (co_await connection.ReadReply(wire::FrameType::kPong, id)).status();
}

}  // namespace

NodePeers::NodePeers(io::Loop& loop, io::Endpoint endpoint, std::string node_id,
                     PeerOptions options, std::function<void(const wire::HelloReply&)> on_hello)
    : loop_(loop),
      options_(std::move(options)),
      on_hello_(std::move(on_hello)),
      first_(std::make_shared<Peer>(loop, std::move(endpoint), std::move(node_id), options_,
                                    [this](const wire::HelloReply& hello) { OnHello(hello); })),
      shards_{first_} {}

bool NodePeers::AllWell() const {
  return !ports_.empty() && std::ranges::none_of(shards_, &Peer::down);
}

io::Task<Status> NodePeers::Learn(TimePoint deadline) {
  if (AllWell()) co_return OkStatus();
  co_return co_await first_->Exchange(Lane::kLoad, deadline, Ping);
}

const std::shared_ptr<Peer>& NodePeers::Of(const NamespaceId& ns,
                                           const BlockHash& placement) const {
  if (shards_.size() == 1) return shards_.front();
  return shards_[ShardOf(ns, placement, shards_.size())];
}

void NodePeers::OnHello(const wire::HelloReply& hello) {
  std::vector<uint16_t> ports = hello.shard_ports;
  if (ports.empty() || hello.shard >= ports.size()) ports = {first_->endpoint().port};
  if (!closed_ && ports != ports_) {
    std::vector<std::shared_ptr<Peer>> shards;
    for (uint32_t i = 0; i < ports.size(); ++i) {
      const bool answered = ports.size() == 1 || i == hello.shard;
      shards.push_back(answered ? first_ : ShardAt(i, ports[i]));
    }
    ports_ = std::move(ports);
    std::swap(shards, shards_);
    for (const auto& old : shards) {
      if (std::ranges::find(shards_, old) == shards_.end() && old != first_) {
        gate_.Spawn(ClosePeer(old));
      }
    }
  }
  if (on_hello_) on_hello_(hello);
}

// The one that is known already, if it is the same.
std::shared_ptr<Peer> NodePeers::ShardAt(uint32_t shard, uint16_t port) {
  if (shard < shards_.size() && shards_[shard] != first_ &&
      shards_[shard]->endpoint().port == port) {
    return shards_[shard];
  }
  PeerOptions options = options_;
  options.shard = shard;
  return std::make_shared<Peer>(loop_, io::Endpoint{endpoint().host, port}, node_id(), options,
                                on_hello_);
}

io::Task<void> NodePeers::Close() {
  closed_ = true;
  io::Gate closing;
  for (const auto& peer : shards_) closing.Spawn(ClosePeer(peer));
  if (std::ranges::find(shards_, first_) == shards_.end()) closing.Spawn(ClosePeer(first_));
  co_await closing.Close();
  co_await gate_.Close();
}

}  // namespace ember::cluster
