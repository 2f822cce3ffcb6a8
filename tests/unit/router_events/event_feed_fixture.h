// A feed with its index, and batches that are told to it.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "router/events/event_feed.h"
#include "router/events/kv_event_decoder.h"

namespace ember::router {

class EventFeedFixture : public ::testing::Test {
 protected:
  void Tell(EventSourceId source, const std::string& payload) {
    const Result<KvEventBatch> batch = DecodeKvEventBatch(AsBytes(payload), fold_);
    ASSERT_TRUE(batch.ok());
    for (const KvEvent& event : batch->events) TellEvent(feed_, source, batch->rank, event);
  }

  PrefixIndex index_{PrefixIndexOptions{}};
  SeededRandom random_{7};
  MetricsRegistry registry_;
  EventMetrics metrics_{registry_};
  EventFeed feed_{index_, random_, metrics_};
  EngineKeyFold fold_{42};
};

}  // namespace ember::router
