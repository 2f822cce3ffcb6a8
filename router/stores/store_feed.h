// StoreFeed: what the store nodes' feeds say, written into the index.
//
// A node's shards are holders of their own, for each is forgotten by itself; so is a node that is
// lost. Concurrency: one thread (the router's loop). The index must outlive it.
#pragma once

#include <string>
#include <vector>

#include "router/index/prefix_index.h"
#include "router/stores/store_event.h"

namespace ember::router {

struct StoreReport {
  std::string address;
  bool connected = false;
  bool current = false;  // every shard's snapshot is complete
  uint64_t segments = 0;
  std::string why;  // it is not connected
};

class StoreFeed final : public StoreListener {
 public:
  // `addresses`: of the nodes, in the order of their numbers.
  StoreFeed(PrefixIndex& index, const std::vector<std::string>& addresses);

  void OnEvents(StoreNumber store, const std::vector<StoreEvent>& events) override;
  void OnLost(StoreNumber store, const Status& why) override;

  std::vector<StoreReport> Report() const;
  // Every node is connected and its snapshots are complete.
  bool current() const;

 private:
  struct Shard {
    HolderId holder = kNoHolder;
    bool current = false;
  };
  struct Node {
    std::string address;
    bool connected = false;
    std::string why = "not heard yet";
    std::vector<Shard> shards;
  };

  void Apply(Node& node, const StoreEvent& event);
  // Gives up the shards from `count` on.
  void Resize(Node& node, size_t count);
  static bool IsCurrent(const Node& node);

  PrefixIndex& index_;
  std::vector<Node> nodes_;
};

}  // namespace ember::router
