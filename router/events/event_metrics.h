// EventMetrics: what the event streams count, `ember_router_event*`. Updated from any thread.
#pragma once

#include "proto/base/metrics.h"

namespace ember::router {

struct EventMetrics {
  explicit EventMetrics(MetricsRegistry& registry);

  Counter& batches;
  Counter& stored;  // events, as are the next two
  Counter& removed;
  Counter& cleared;
  Counter& blocks_stored;
  Counter& blocks_removed;
  Counter& gaps;      // holes in a sequence of numbers, or a batch that can't be read
  Counter& replays;   // replays asked for
  Counter& restarts;  // publishers that began anew
  Counter& losses;    // times that a source's entries were dropped
  Counter& unknown_types;
  Counter& unknown_media;
  Counter& unknown_ranks;   // batches of ranks that the replica doesn't have
  Counter& unusable;        // events that contradict themselves
  Counter& parts;           // blocks that are a part of the group's blocks, not indexed
  Counter& unplaced;        // blocks of events that leave out others, nobody knows which
  Counter& orphans;         // blocks whose parent, or whose tokens, were never told
  Counter& malformed;       // messages that are no event messages
  Counter& contradictions;  // replies with far fewer cached tokens than the index said
  Counter& block_size_changes;
  Histogram& lag;    // seconds from a live batch's timestamp to its arrival
  Gauge& untrusted;  // sources that are not trusted
  Gauge& sources;
};

}  // namespace ember::router
