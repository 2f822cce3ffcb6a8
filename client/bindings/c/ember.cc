// The C ABI's client: each call translated, nothing decided.
#include "client/bindings/c/ember.h"

#include <algorithm>

#include "client/bindings/c/call_guard.h"
#include "client/bindings/c/client.h"
#include "client/bindings/c/segment.h"

struct ember_lease {
  ember::Lease lease;
};

namespace ember::c {

std::string& LastError() {
  static thread_local std::string text;
  return text;
}

namespace {

constexpr uint32_t kDefaultCopies = 2;
constexpr uint32_t kDefaultConnectMs = 500;

Result<std::vector<io::Endpoint>> EndpointsOf(const std::string& text) {
  std::vector<io::Endpoint> endpoints;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    Result<io::Endpoint> endpoint = io::Endpoint::Parse(text.substr(begin, comma - begin));
    if (!endpoint.ok()) return endpoint.status();
    endpoints.push_back(*std::move(endpoint));
    begin = comma + 1;
  }
  return endpoints;
}

Result<StoreClientOptions> OptionsOf(const ember_options& in) {
  StoreClientOptions options;
  Result<std::vector<io::Endpoint>> seeds = EndpointsOf(Text(in.stores));
  if (!seeds.ok()) return seeds.status().WithContext("stores");
  options.seeds = *std::move(seeds);
  Result<io::Backend> backend = io::ParseBackend(in.io == nullptr ? "auto" : in.io);
  if (!backend.ok()) return backend.status();
  options.backend = *backend;
  options.name = in.name == nullptr ? "libember" : in.name;
  options.tenant = Text(in.tenant);
  options.copies = in.copies == 0 ? kDefaultCopies : in.copies;
  options.connect_timeout =
      milliseconds(in.connect_timeout_ms == 0 ? kDefaultConnectMs : in.connect_timeout_ms);
  options.map_memory = in.no_shared_memory == 0;
  return options;
}

Result<MatchResult> Match(ember_client* client, const ember_segment* segments, size_t count,
                          uint32_t timeout_ms, const MatchOptions& options, ember_presence* out,
                          size_t* usable) {
  if (client == nullptr || usable == nullptr || Missing(segments, count) || Missing(out, count)) {
    return InvalidError("a null pointer");
  }
  std::vector<SegmentRef> refs;
  for (size_t i = 0; i < count; ++i) refs.push_back(ToRef(segments[i]));
  MatchResult result = client->client->Match(refs, milliseconds(timeout_ms), options);
  for (size_t i = 0; i < count; ++i) {
    out[i].miss = static_cast<int32_t>(result.segments[i].miss);
    out[i].payload_bytes = result.segments[i].payload_bytes;
  }
  *usable = result.usable;
  return result;
}

void CopyText(const std::string& text, char (&out)[EMBER_TEXT_BYTES]) {
  out[text.copy(out, EMBER_TEXT_BYTES - 1)] = '\0';
}

}  // namespace
}  // namespace ember::c

using ember::InvalidError;
using ember::OkStatus;
using ember::Status;
using ember::c::Guarded;
using ember::c::Missing;

int ember_abi_version(void) { return EMBER_ABI_VERSION; }
const char* ember_version(void) { return EMBER_VERSION; }
const char* ember_last_error(void) { return ember::c::LastError().c_str(); }

const char* ember_code_name(ember_code code) {
  const auto number = static_cast<uint32_t>(code);
  if (number > EMBER_INTERNAL) return "unknown";
  return ember::StatusCodeName(static_cast<ember::StatusCode>(number)).data();
}

const char* ember_miss_name(ember_miss miss) {
  const auto number = static_cast<uint32_t>(miss);
  return ember::MissReasonName(
             ember::MissReasonFromWire(static_cast<uint8_t>(std::min(number, 255u))))
      .data();
}

ember_code ember_client_create(const ember_options* options, ember_client** out) {
  return Guarded([&]() -> Status {
    if (options == nullptr || out == nullptr) return InvalidError("a null pointer");
    *out = nullptr;
    auto parsed = ember::c::OptionsOf(*options);
    if (!parsed.ok()) return parsed.status();
    auto client = ember::StoreClient::Create(*std::move(parsed));
    if (!client.ok()) return client.status();
    *out = new ember_client{*std::move(client)};
    return OkStatus();
  });
}

void ember_client_destroy(ember_client* client) {
  (void)Guarded([&]() -> Status {
    delete client;
    return OkStatus();
  });
}

ember_code ember_match(ember_client* client, const ember_segment* segments, size_t count,
                       uint32_t timeout_ms, ember_presence* out, size_t* usable) {
  return Guarded([&]() -> Status {
    return ember::c::Match(client, segments, count, timeout_ms, {}, out, usable).status();
  });
}

ember_code ember_match_lease(ember_client* client, const ember_segment* segments, size_t count,
                             uint32_t timeout_ms, uint32_t lease_ms, ember_presence* out,
                             size_t* usable, ember_lease** lease) {
  return Guarded([&]() -> Status {
    if (lease == nullptr) return InvalidError("a null pointer");
    *lease = nullptr;
    auto result = ember::c::Match(client, segments, count, timeout_ms,
                                  {.lease = ember::milliseconds(lease_ms)}, out, usable);
    if (result.ok() && result->lease.held()) *lease = new ember_lease{std::move(result->lease)};
    return result.status();
  });
}

void ember_lease_release(ember_lease* lease) {
  (void)Guarded([&]() -> Status {
    delete lease;
    return OkStatus();
  });
}

ember_code ember_get(ember_client* client, ember_get_item* items, size_t count,
                     const uint8_t* layout, uint32_t timeout_ms, size_t* usable) {
  return Guarded([&]() -> Status {
    if (client == nullptr || layout == nullptr || usable == nullptr || Missing(items, count)) {
      return InvalidError("a null pointer");
    }
    std::vector<ember::GetRequest> requests;
    for (size_t i = 0; i < count; ++i) {
      const ember_get_item& item = items[i];
      if (Missing(item.tokens, item.token_count) || Missing(item.buffer, item.buffer_bytes)) {
        return InvalidError("item " + std::to_string(i) + ": a null pointer");
      }
      if (item.is_range && item.buffer_bytes == 0) {
        return InvalidError("item " + std::to_string(i) + ": a range of no bytes");
      }
      requests.push_back({.ref = ember::c::ToRef(item.segment),
                          .tokens = {item.tokens, item.token_count},
                          .buffer = {static_cast<std::byte*>(item.buffer), item.buffer_bytes},
                          .offset = item.is_range ? std::optional(item.offset) : std::nullopt});
    }
    const ember::GetResult result =
        client->client->Get(requests, ember::c::LayoutAt(layout), ember::milliseconds(timeout_ms));
    for (size_t i = 0; i < count; ++i) items[i].miss = static_cast<int32_t>(result.misses[i]);
    *usable = result.usable;
    return OkStatus();
  });
}

ember_code ember_put(ember_client* client, ember_put_item* items, size_t count,
                     const uint8_t* layout, int32_t ack, uint32_t timeout_ms, size_t* stored) {
  return Guarded([&]() -> Status {
    if (client == nullptr || layout == nullptr || Missing(items, count)) {
      return InvalidError("a null pointer");
    }
    if (ack != EMBER_ACK_MEMORY && ack != EMBER_ACK_DISK) return InvalidError("no such ack level");
    std::vector<ember::PutRequest> requests;
    for (size_t i = 0; i < count; ++i) {
      const ember_put_item& item = items[i];
      if (Missing(item.tokens, item.token_count) || Missing(item.payload, item.payload_bytes) ||
          Missing(item.layer_offsets, item.layer_count)) {
        return InvalidError("item " + std::to_string(i) + ": a null pointer");
      }
      requests.push_back(
          {.ref = ember::c::ToRef(item.segment),
           .tokens = {item.tokens, item.token_count},
           .payload = {static_cast<const std::byte*>(item.payload), item.payload_bytes},
           .layer_offsets = {item.layer_offsets, item.layer_offsets + item.layer_count}});
    }
    const auto outcomes =
        client->client->Put(requests, ember::c::LayoutAt(layout), ember::milliseconds(timeout_ms),
                            {.ack = static_cast<ember::AckLevel>(ack)});
    size_t with_copy = 0;
    Status why;
    for (size_t i = 0; i < count; ++i) {
      items[i].copies = outcomes[i].copies;
      items[i].disk_copies = outcomes[i].disk_copies;
      items[i].was_there = outcomes[i].was_there;
      items[i].code = static_cast<int32_t>(outcomes[i].status.code());
      with_copy += outcomes[i].copies > 0;
      if (why.ok()) why = outcomes[i].status;
    }
    if (stored != nullptr) *stored = with_copy;
    // Nothing stored anywhere is what a caller wants the reason of.
    return count > 0 && with_copy == 0 ? why : OkStatus();
  });
}

ember_code ember_nodes(ember_client* client, ember_node* out, size_t capacity, size_t* count) {
  return Guarded([&]() -> Status {
    if (client == nullptr || count == nullptr || Missing(out, capacity)) {
      return InvalidError("a null pointer");
    }
    const std::vector<ember::StoreClient::NodeState> nodes = client->client->Nodes();
    for (size_t i = 0; i < std::min(capacity, nodes.size()); ++i) {
      ember::c::CopyText(nodes[i].id, out[i].id);
      ember::c::CopyText(nodes[i].endpoint.ToString(), out[i].address);
      out[i].reachable = nodes[i].reachable;
      ember::c::CopyText(nodes[i].last_error, out[i].last_error);
    }
    *count = nodes.size();
    return OkStatus();
  });
}
