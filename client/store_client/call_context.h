// CallContext: what every call of one store client works with.
//
// Concurrency: the loop's thread only, but for `options`, `metrics` and `shared_loop`.
#pragma once

#include <algorithm>

#include "client/io/gate.h"
#include "client/io/shared_loop.h"
#include "client/store_client/client_metrics.h"
#include "client/store_client/copy_hints.h"
#include "client/store_client/lease_returns.h"
#include "client/store_client/membership.h"

namespace ember {

struct CallContext {
  io::SharedLoop& shared_loop;
  io::Loop& loop;  // of shared_loop
  const StoreClientOptions& options;
  ClientMetrics& metrics;
  Membership& membership;
  CopyHints& hints;
  io::Gate& gate;  // for what may outlive the call that began it
  std::shared_ptr<LeaseReturns> returns;

  // False when the client is shut down; the task has then not begun.
  bool Spawn(io::Task<void> task) {
    if (gate.closed()) return false;
    gate.Spawn(std::move(task));
    return true;
  }
};

// The owners of consecutive segments, computed once for each placement group.
class OwnerList {
 public:
  OwnerList(const cluster::View& view, uint32_t copies) : view_(view), copies_(copies) {}
  const std::vector<size_t>& Of(const SegmentRef& segment);

 private:
  const cluster::View& view_;
  const uint32_t copies_;
  bool known_ = false;
  NamespaceId ns_;
  BlockHash placement_;
  std::vector<size_t> owners_;
};

// What one of a node's shards is asked for: places in the caller's list.
struct ShardShare {
  std::shared_ptr<cluster::Peer> peer;
  std::vector<uint32_t> items;
};
// `ref_of(item)` is the item's SegmentRef.
template <typename RefOf>
std::vector<ShardShare> ShareByShard(const cluster::NodePeers& node, std::vector<uint32_t> items,
                                     RefOf ref_of) {
  std::vector<ShardShare> shares;
  if (node.shards() == 1) {
    shares.push_back({node.first(), std::move(items)});
    return shares;
  }
  for (uint32_t item : items) {
    const SegmentRef& ref = ref_of(item);
    const std::shared_ptr<cluster::Peer>& peer = node.Of(ref.key.ns, ref.placement);
    auto share = std::ranges::find(shares, peer, &ShardShare::peer);
    if (share == shares.end()) share = shares.insert(share, {peer, {}});
    share->items.push_back(item);
  }
  return shares;
}

// As requests carry it: rounded up to milliseconds, at most wire::kMaxLeaseMs; 0: no lease.
uint32_t LeaseMs(Duration lease);

// Why a segment is missed when its owner could not be asked.
MissReason MissReasonOf(const Status& status);

// Of what two owners say of one segment, what tells the caller more. A copy that was there and is
// gone says more than one that never was; an owner that was not reached might have had it.
MissReason MoreTelling(MissReason a, MissReason b);

// A node's "never stored" is no proof when it has lost its memory lately.
MissReason MissReasonAt(const cluster::Peer& peer, MissReason reason);

}  // namespace ember
