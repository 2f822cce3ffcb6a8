// ClientFixture: a cluster of scripted nodes and a client against it, once for each I/O back end.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/unit/store_client/oracle.h"
#include "tests/unit/store_client/scripted_node.h"
#include "tests/unit/support/eventually.h"

namespace ember::testing {

class ClientFixture {
 public:
  explicit ClientFixture(io::Backend backend) : backend_(backend) {}

  static bool Available(io::Backend backend) { return io::MakeLoop(backend).ok(); }

  void StartNodes(size_t count) {
    std::vector<wire::Member> members;
    for (size_t i = 0; i < count; ++i) {
      nodes.push_back(std::make_unique<ScriptedNode>("node-" + std::to_string(i)));
      nodes.back()->Start();
      members.push_back(nodes.back()->member());
    }
    for (auto& node : nodes) node->set_members(members);
  }

  StoreClientOptions Options() {
    StoreClientOptions options;
    for (const auto& node : nodes) options.seeds.push_back({"127.0.0.1", node->port()});
    options.backend = backend_;
    options.connect_timeout = milliseconds(300);
    options.metrics = &metrics;
    return options;
  }

  std::unique_ptr<StoreClient> Connect() { return Connect(Options()); }
  static std::unique_ptr<StoreClient> Connect(StoreClientOptions options) {
    Result<std::unique_ptr<StoreClient>> client = StoreClient::Create(std::move(options));
    EXPECT_TRUE(client.ok()) << client.status().ToString();
    return *std::move(client);
  }

  // The node that is the only one, of two or more, to fail: an owner of the chain's first segment.
  ScriptedNode& OwnerOf(const SegmentRef& ref) {
    for (auto& node : nodes) {
      if (node->Has(ref.key)) return *node;
    }
    ADD_FAILURE() << "no node has the segment";
    return *nodes.front();
  }

  uint64_t CounterValue(const std::string& name, MetricLabels labels = {}) {
    return metrics.AddCounter(name, "", std::move(labels)).value();
  }

  std::vector<std::unique_ptr<ScriptedNode>> nodes;
  MetricsRegistry metrics;

 private:
  const io::Backend backend_;
};

inline std::string BackendName(const ::testing::TestParamInfo<io::Backend>& info) {
  return info.param == io::Backend::kUring ? "Uring" : "Epoll";
}

}  // namespace ember::testing
