// Rows of a table: what engines of any kind and version may say of one prompt's blocks, and how
// much of the prompt is known afterwards. Each row is told as maps and as arrays, encoded by a
// library that is not ours.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "router/events/event_feed.h"
#include "router/events/kv_event_decoder.h"

namespace ember::router {

using Json = nlohmann::json;

inline constexpr uint32_t kRowBlock = 4;  // tokens
inline constexpr size_t kRowTokens = 16;  // of the prompt: 1, 2, 3 ...

// Block `i` of the prompt, i from 0, stored under `hash`; fields of `more` replace or join.
inline Json Block(int i, const Json& hash, const Json& parent, const Json& more = Json::object()) {
  Json event = {{"type", "BlockStored"},       {"block_hashes", Json::array({hash})},
                {"parent_block_hash", parent}, {"token_ids", Json::array()},
                {"block_size", kRowBlock},     {"lora_id", nullptr}};
  for (uint32_t t = 0; t < kRowBlock; ++t) {
    event["token_ids"].push_back(static_cast<uint32_t>(i) * kRowBlock + t + 1);
  }
  event.update(more);
  return event;
}

// The whole prompt, under the hashes 101 to 104, in one event.
inline Json Whole(const Json& more = Json::object()) {
  Json event = Block(0, 101, nullptr);
  event["block_hashes"] = {101, 102, 103, 104};
  for (uint32_t t = kRowBlock; t < kRowTokens; ++t) event["token_ids"].push_back(t + 1);
  event.update(more);
  return event;
}

inline Json Gone(const Json& hashes, const Json& more = Json::object()) {
  Json event = {{"type", "BlockRemoved"}, {"block_hashes", hashes}};
  event.update(more);
  return event;
}

inline Json Cleared(const Json& more = Json::object()) {
  Json event = {{"type", "AllBlocksCleared"}};
  event.update(more);
  return event;
}

// As the engines' classes order their fields; what no place is for comes last.
inline Json AsArray(const Json& event) {
  if (!event.is_object() || !event.contains("type")) return event;
  std::vector<const char*> order;
  if (event["type"] == "BlockStored") {
    order = {"block_hashes",
             "parent_block_hash",
             "token_ids",
             "block_size",
             "lora_id",
             "medium",
             "lora_name",
             "extra_keys",
             "group_idx",
             "kv_cache_spec_kind",
             "kv_cache_spec_sliding_window"};
  } else if (event["type"] == "BlockRemoved") {
    order = {"block_hashes", "medium", "group_idx"};
  }
  Json array = Json::array({event["type"]});
  size_t used = 1;
  for (const char* field : order) {
    array.push_back(event.value(field, Json()));
    if (event.contains(field)) used = array.size();
  }
  array.get_ref<Json::array_t&>().resize(used);  // engines leave out what is as by default
  for (const auto& [field, value] : event.items()) {
    const bool placed = std::find(order.begin(), order.end(), field) != order.end();
    if (placed || field == "type") continue;
    while (array.size() <= order.size()) array.push_back(nullptr);
    array.push_back(value);
  }
  return array;
}

struct EventRow {
  const char* what;
  std::vector<Json> events;
  uint64_t device;  // tokens of the prompt
  uint64_t any;     // in any tier
  std::string adapter{};
  std::string salt{};
};

// The parameter: whether as arrays.
class EventRows : public testing::TestWithParam<bool> {
 protected:
  std::string Payload(const std::vector<Json>& events) const {
    Json list = Json::array();
    for (const Json& event : events) list.push_back(GetParam() ? AsArray(event) : event);
    return Encoded(Json::array({1795991509.25, list}));
  }
  static std::string Encoded(const Json& batch) {
    const std::vector<uint8_t> bytes = Json::to_msgpack(batch);
    return {bytes.begin(), bytes.end()};
  }

  // One replica, that was told the batches; what it has of the prompt.
  struct Told {
    GroupMatch match;
    size_t blocks = 0;
    uint64_t unusable = 0, unknown = 0;
    bool readable = true;
    bool trusted = false;
  };
  Told Tell(const std::vector<std::string>& payloads, const std::string& adapter = "",
            const std::string& salt = "") {
    PrefixIndex index{PrefixIndexOptions{}};
    SeededRandom random{7};
    MetricsRegistry registry;
    EventMetrics metrics{registry};
    EventFeed feed{index, random, metrics};
    const EngineKeyFold fold{42};
    const HolderId holder = index.AddHolder(HolderKind::kReplica);
    feed.AddSource(1, {.id = "r", .model = "m", .holders = {holder}}, 0);
    feed.OnTrusted(1);
    Told told;
    for (const std::string& payload : payloads) {
      const Result<KvEventBatch> batch = DecodeKvEventBatch(AsBytes(payload), fold);
      if (!batch.ok()) {
        told.readable = false;
        continue;
      }
      told.unusable += batch->unusable;
      told.unknown += batch->unknown_types + batch->unknown_media;
      for (const KvEvent& event : batch->events) TellEvent(feed, 1, batch->rank, event);
    }
    TokenizedPrompt prompt;
    prompt.model = "m";
    prompt.adapter = adapter;
    prompt.salt = salt;
    for (size_t t = 0; t < kRowTokens; ++t) prompt.tokens.push_back(static_cast<TokenId>(t + 1));
    for (const GroupMatch& match : feed.Match(prompt, EventFeed::Holders().set())) {
      if (match.holder == holder) told.match = match;
    }
    told.trusted = feed.trusted(holder);
    told.blocks = index.blocks_held(holder);
    return told;
  }
  void Check(const std::vector<EventRow>& rows) {
    for (const EventRow& row : rows) {
      // Whether one batch tells it, or each event comes in a batch of its own.
      std::vector<std::string> single;
      for (const Json& event : row.events) single.push_back(Payload({event}));
      for (const auto& payloads : {std::vector{Payload(row.events)}, single}) {
        const Told told = Tell(payloads, row.adapter, row.salt);
        EXPECT_TRUE(told.readable) << row.what;
        EXPECT_EQ(told.match.device_tokens, row.device) << row.what;
        EXPECT_EQ(told.match.any_tier_tokens, row.any) << row.what;
      }
    }
  }
};

}  // namespace ember::router
