#include "router/events/event_metrics.h"

namespace ember::router {
namespace {

Counter& EventsOf(MetricsRegistry& registry, const char* type) {
  return registry.AddCounter("ember_router_events_total", "KV events of engines, by type.",
                             {{"type", type}});
}

Counter& BlocksOf(MetricsRegistry& registry, const char* type) {
  return registry.AddCounter("ember_router_event_blocks_total", "Blocks in KV events, by type.",
                             {{"type", type}});
}

Counter& UnknownOf(MetricsRegistry& registry, const char* what) {
  return registry.AddCounter("ember_router_event_unknown_total",
                             "KV events with a type, medium or rank that is not known.",
                             {{"what", what}});
}

Counter& PassedOver(MetricsRegistry& registry, const char* why) {
  return registry.AddCounter("ember_router_event_passed_over_blocks_total",
                             "Stored blocks that are not indexed, though their event can be read.",
                             {{"why", why}});
}

}  // namespace

EventMetrics::EventMetrics(MetricsRegistry& registry)
    : batches(registry.AddCounter("ember_router_event_batches_total", "Batches of KV events.")),
      stored(EventsOf(registry, "stored")),
      removed(EventsOf(registry, "removed")),
      cleared(EventsOf(registry, "cleared")),
      blocks_stored(BlocksOf(registry, "stored")),
      blocks_removed(BlocksOf(registry, "removed")),
      gaps(registry.AddCounter("ember_router_event_gaps_total",
                               "Holes in the numbers of an event stream.")),
      replays(registry.AddCounter("ember_router_event_replays_total",
                                  "Replays asked of event publishers.")),
      restarts(registry.AddCounter("ember_router_event_restarts_total",
                                   "Event publishers that began anew.")),
      losses(registry.AddCounter("ember_router_event_losses_total",
                                 "Times that all entries of an event source were dropped.")),
      unknown_types(UnknownOf(registry, "type")),
      unknown_media(UnknownOf(registry, "medium")),
      unknown_ranks(UnknownOf(registry, "rank")),
      unusable(registry.AddCounter("ember_router_event_unusable_total",
                                   "KV events that contradict themselves.")),
      parts(PassedOver(registry, "part")),
      unplaced(PassedOver(registry, "unplaced")),
      orphans(registry.AddCounter("ember_router_event_orphans_total",
                                  "Stored blocks whose place in a chain is not known.")),
      malformed(registry.AddCounter("ember_router_event_malformed_total",
                                    "Messages on event streams that are none.")),
      contradictions(
          registry.AddCounter("ember_router_event_contradictions_total",
                              "Replies with far fewer cached tokens than events promised.")),
      block_size_changes(registry.AddCounter("ember_router_event_block_size_changes_total",
                                             "Replicas that came back with other block sizes.")),
      lag(registry.AddHistogram("ember_router_event_lag_seconds",
                                "From the time in a batch of KV events to its arrival.")),
      untrusted(
          registry.AddGauge("ember_router_events_untrusted",
                            "Event sources whose picture of the cache is not known to be whole.")),
      sources(registry.AddGauge("ember_router_event_sources", "Event streams that are followed.")) {
}

}  // namespace ember::router
