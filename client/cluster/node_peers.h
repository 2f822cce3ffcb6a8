// NodePeers: one node as a client sees it: a Peer for each of its shards.
//
// Operation: one address is known from the view; the hello that answers there names the ports of
// all shards. A node that comes back with other shards is noticed when one of them can't be
// reached.
// Concurrency: the loop's thread only. Life: Close() it, and let every Exchange end, before it
// dies.
#pragma once

#include <memory>
#include <vector>

#include "client/cluster/peer.h"
#include "proto/model/block_hash.h"

namespace ember::cluster {

class NodePeers {
 public:
  // As Peer; `endpoint` is the member's in the view.
  NodePeers(io::Loop& loop, io::Endpoint endpoint, std::string node_id, PeerOptions options,
            std::function<void(const wire::HelloReply&)> on_hello);
  NodePeers(const NodePeers&) = delete;
  NodePeers& operator=(const NodePeers&) = delete;

  // Makes the shards known: at once when they are and are well, else by asking the node. The status
  // of the node's address otherwise.
  io::Task<Status> Learn(TimePoint deadline);
  // The shard that has a placement group; before Learn, whoever answers at the node's address.
  const std::shared_ptr<Peer>& Of(const NamespaceId& ns, const BlockHash& placement) const;
  // Whoever answers at the node's address.
  const std::shared_ptr<Peer>& first() const { return first_; }
  size_t shards() const { return shards_.size(); }
  const std::vector<std::shared_ptr<Peer>>& peers() const { return shards_; }

  io::Task<void> Close();

  const std::string& node_id() const { return first_->node_id(); }
  const io::Endpoint& endpoint() const { return first_->endpoint(); }
  // Payload bytes asked for and not yet received or given up; kept by the callers.
  uint64_t outstanding_bytes = 0;

 private:
  bool AllWell() const;
  void OnHello(const wire::HelloReply& hello);
  std::shared_ptr<Peer> ShardAt(uint32_t shard, uint16_t port);

  io::Loop& loop_;
  const PeerOptions options_;
  const std::function<void(const wire::HelloReply&)> on_hello_;
  const std::shared_ptr<Peer> first_;
  std::vector<uint16_t> ports_;  // of the shards; empty until known
  std::vector<std::shared_ptr<Peer>> shards_;
  bool closed_ = false;
  io::Gate gate_;  // of those that were replaced
};

}  // namespace ember::cluster
