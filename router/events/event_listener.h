// EventListener: who hears what engines say about their caches. Called on the router's loop thread,
// in the order of each source's stream.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "proto/base/status.h"
#include "router/events/kv_event.h"

namespace ember::router {

// One event stream of one engine (of one data-parallel rank). Never used twice.
using EventSourceId = uint64_t;

class EventListener {
 public:
  virtual ~EventListener() = default;
  // `rank`: the data-parallel rank that the event names; nothing: the one that the source is of.
  virtual void OnStored(EventSourceId source, std::optional<uint32_t> rank,
                        const KvStored& event) = 0;
  virtual void OnRemoved(EventSourceId source, std::optional<uint32_t> rank,
                         const KvRemoved& event) = 0;
  virtual void OnCleared(EventSourceId source, std::optional<uint32_t> rank) = 0;
  // Everything that the source said so far is void. What it says from now on is true, but it may
  // hold more than that.
  virtual void OnLost(EventSourceId source, const Status& why) = 0;
  // Whether an engine's publisher is connected; told when it changes, and at first.
  virtual void OnConnection(EventSourceId source, bool connected) = 0;
  // From here on nothing is missing.
  virtual void OnTrusted(EventSourceId source) = 0;
  // What was told since the last question took so much more work than naming its blocks does, in
  // blocks.
  virtual size_t TakeFurtherWork() { return 0; }
};

// `rank`: as the batch names it.
inline void TellEvent(EventListener& listener, EventSourceId source, std::optional<uint32_t> rank,
                      const KvEvent& event) {
  if (const auto* stored = std::get_if<KvStored>(&event)) {
    listener.OnStored(source, rank, *stored);
  } else if (const auto* removed = std::get_if<KvRemoved>(&event)) {
    listener.OnRemoved(source, rank, *removed);
  } else {
    listener.OnCleared(source, rank);
  }
}

}  // namespace ember::router
