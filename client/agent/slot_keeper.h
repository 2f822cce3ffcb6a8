// SlotKeeper: what happens to a slot after its reply: the engine saves it, so that its content is
// known and its new segments can be pushed, and then the next request may have it. The client waits
// for none of this.
//
// Concurrency: the HTTP loop's thread. Life: everything given must outlive it; coroutines still
// suspended when the loop stops are dropped.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>

#include "client/agent/agent_metrics.h"
#include "client/agent/engine_client.h"
#include "client/agent/engine_monitor.h"
#include "client/agent/request_log.h"
#include "client/agent/segment_pusher.h"
#include "client/agent/slot_table.h"
#include "client/http/loop.h"

namespace ember::agent {

struct KeepJob {
  SlotTable::Lease lease;
  std::shared_ptr<const EngineIdentity> identity;  // null: the slot's content is not believed
  std::shared_ptr<const std::vector<TokenId>> prompt;
  std::shared_ptr<RequestRecord> record;
  bool push = true;
};

class SlotKeeper {
 public:
  // `pusher` may be null.
  SlotKeeper(http::HttpLoop& loop, EngineClient& engine, EngineMonitor& monitor,
             const SlotFolder& folder, SegmentPusher* pusher, AgentMetrics& metrics)
      : loop_(loop),
        engine_(engine),
        monitor_(monitor),
        folder_(folder),
        pusher_(pusher),
        metrics_(metrics) {}

  // Returns at once; the lease ends when the slot is saved.
  void Keep(KeepJob job);

 private:
  boost::asio::awaitable<void> Run(KeepJob job);
  boost::asio::awaitable<Result<std::shared_ptr<const SavedSlot>>> Save(KeepJob& job);
  void Push(const KeepJob& job, std::shared_ptr<const SavedSlot> saved);

  http::HttpLoop& loop_;
  EngineClient& engine_;
  EngineMonitor& monitor_;
  const SlotFolder& folder_;
  SegmentPusher* const pusher_;
  AgentMetrics& metrics_;
};

}  // namespace ember::agent
