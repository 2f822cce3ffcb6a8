// The C ABI's reads in a node's memory.
#include "client/bindings/c/call_guard.h"
#include "client/bindings/c/client.h"
#include "client/bindings/c/segment.h"

struct ember_mapped {
  ember::MappedSegment segment;
};

using ember::InvalidError;
using ember::OkStatus;
using ember::Status;
using ember::c::Guarded;
using ember::c::Missing;

ember_code ember_get_in_place(ember_client* client, ember_in_place_item* items, size_t count,
                              const uint8_t* layout, uint32_t timeout_ms, uint32_t lease_ms,
                              size_t* usable) {
  return Guarded([&]() -> Status {
    if (Missing(items, count)) return InvalidError("a null pointer");
    for (size_t i = 0; i < count; ++i) items[i].mapped = nullptr;
    if (client == nullptr || layout == nullptr || usable == nullptr) {
      return InvalidError("a null pointer");
    }
    std::vector<ember::InPlaceRequest> requests;
    for (size_t i = 0; i < count; ++i) {
      const ember_in_place_item& item = items[i];
      if (Missing(item.tokens, item.token_count)) {
        return InvalidError("item " + std::to_string(i) + ": a null pointer");
      }
      requests.push_back({ember::c::ToRef(item.segment), {item.tokens, item.token_count}});
    }
    ember::InPlaceResult result =
        client->client->GetInPlace(requests, ember::c::LayoutAt(layout),
                                   ember::milliseconds(timeout_ms), ember::milliseconds(lease_ms));
    for (size_t i = 0; i < count; ++i) {
      ember_in_place_item& item = items[i];
      item.miss = static_cast<int32_t>(result.misses[i]);
      item.payload = nullptr;
      item.payload_bytes = item.deadline_ns = 0;
      if (!result.segments[i].held()) continue;
      item.mapped = new ember_mapped{std::move(result.segments[i])};
      const ember::MappedSegment& segment = item.mapped->segment;
      item.payload = segment.payload().data();
      item.payload_bytes = segment.payload().size();
      item.deadline_ns = static_cast<uint64_t>(
          std::chrono::nanoseconds(segment.deadline().time_since_epoch()).count());
    }
    *usable = result.usable;
    return result.status;
  });
}

ember_code ember_mapped_verify(const ember_mapped* mapped) {
  return Guarded([&]() -> Status {
    if (mapped == nullptr) return InvalidError("a null pointer");
    return mapped->segment.Verify();
  });
}

void ember_mapped_release(ember_mapped* mapped) {
  (void)Guarded([&]() -> Status {
    delete mapped;
    return OkStatus();
  });
}
