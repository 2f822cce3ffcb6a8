// What contradicts itself, what nobody knows, and batches of every form.
#include "tests/unit/router_events/event_rows.h"

namespace ember::router {
namespace {

using nlohmann::literals::operator""_json;

class EventOddities : public EventRows {};

INSTANTIATE_TEST_SUITE_P(Shapes, EventOddities, testing::Bool(),
                         [](const auto& shape) { return shape.param ? "Arrays" : "Maps"; });

TEST_P(EventOddities, AStoredEventThatContradictsItselfIsLeftOutAndTheRestCounts) {  // A11, A15
  for (const char* odd :
       {R"({"block_size":5})", R"({"block_size":0})", R"({"block_size":-4})",
        R"({"block_size":null})", R"({"block_size":"4"})", R"({"block_size":1099511627776})",
        R"({"token_ids":[1,2,3]})", R"({"token_ids":"text"})", R"({"token_ids":[null]})",
        R"({"block_hashes":7})", R"({"block_hashes":null})", R"({"block_hashes":[101,null]})",
        R"({"block_hashes":[101,1.5,103,104]})", R"({"parent_block_hash":[]})",
        R"({"extra_keys":5})", R"({"group_idx":-1})"}) {
    const Told told = Tell({Payload({Whole(Json::parse(odd)), Block(0, 1, nullptr)})});
    EXPECT_TRUE(told.readable) << odd;
    EXPECT_EQ(told.unusable, 1u) << odd;
    EXPECT_EQ(told.match.device_tokens, 4u) << odd;
  }
}

TEST_P(EventOddities, WhatNobodyKnowsIsCountedAndPassedOver) {  // A11
  for (const char* event :
       {"null", "7", "\"BlockStored\"", "[]", "{}", "[null]", R"({"type":7})",
        R"({"type":"BlockMoved","block_hashes":[101]})", R"({"type":"blockremoved"})",
        R"({"kind":"BlockRemoved","block_hashes":[101]})", R"([["BlockRemoved",[101]]])"}) {
    const Told told = Tell({Payload({Whole(), Json::parse(event)})});
    EXPECT_TRUE(told.readable) << event;
    EXPECT_EQ(told.unknown, 1u) << event;
    EXPECT_EQ(told.match.device_tokens, 16u) << event;
  }
  const Json stored = R"({"locality":"LOCAL","session_id":{"a":[1,2]},"zz":null})"_json;
  const Json removed = R"({"ownership":7,"zz":{}})"_json;
  Check({{"fields of a later version", {Whole(stored), Gone({104}, removed)}, 12, 12}});
}

TEST_P(EventOddities, AnEmptiedCacheIsEmptyWhateverElseIsSaidOfIt) {  // A8
  const Json host = {{"medium", "CPU"}};
  const Json named = {{"lora_name", "sql"}};
  const Json group = {{"group_idx", 1}};
  Check({
      {"all tiers", {Whole(), Whole(host), Cleared()}, 0, 0},
      {"a medium is named", {Whole(), Whole(host), Cleared(host)}, 0, 0},
      {"a group is named", {Whole(), Cleared(group)}, 0, 0},
      {"adapters, too", {Whole(named), Cleared()}, 0, 0, "sql"},
      {"twice", {Cleared(), Cleared(), Whole()}, 16, 16},
      {"parents are gone, too", {Whole(), Cleared(), Block(1, 102, 101)}, 0, 0},
      {"and known again", {Whole(), Cleared(), Whole()}, 16, 16},
  });
}

TEST_P(EventOddities, BatchesOfEveryForm) {  // A11, A16: here, any rank is the only one
  const Json events = Json::array({GetParam() ? AsArray(Whole()) : Whole()});
  const std::vector<Json> good = {
      Json::array({1.5, events}),
      Json::array({1, events, Json()}),
      Json::array({Json(), events, 0}),
      Json::array({"now", events, 3}),
      Json::array({1.5, events, -1}),
      Json::array({1.5, events, 0.5}),
      Json::array({1.5, events, "0"}),
      Json::array({1.5, events, 0, "more", Json::object(), Json::array({1, 2})}),
      Json{{"ts", 1.5}, {"events", events}},
      Json{{"events", events}, {"data_parallel_rank", nullptr}, {"new", Json::object()}},
      Json{{"events", events}, {"attn_dp_rank", 3}},
  };
  for (const Json& batch : good) {
    const Told told = Tell({Encoded(batch)});
    EXPECT_TRUE(told.readable) << batch;
    EXPECT_EQ(told.match.device_tokens, 16u) << batch;
  }
  const std::vector<Json> bad = {
      Json(),
      Json(7),
      Json("x"),
      Json::array(),
      Json::object(),
      Json::array({1.5}),
      Json::array({1.5, Json()}),
      Json::array({1.5, 7}),
      Json::array({events, 1.5}),
      Json{{"ts", 1.5}},
      Json::array({1.5, Json::array({Gone("all")})}),
  };
  for (const Json& batch : bad) EXPECT_FALSE(Tell({Encoded(batch)}).readable) << batch;
}

// Of more blocks than are told at once.
TEST_P(EventOddities, HugeEvents) {
  constexpr int kBlocks = 5000;
  Json event = Block(0, 0, nullptr, R"({"extra_keys":[["tenant"]]})"_json);
  event["block_hashes"] = Json::array();
  event["token_ids"] = Json::array();
  for (int i = 0; i < kBlocks; ++i) event["block_hashes"].push_back(-1 - i);
  for (uint32_t t = 0; t < kBlocks * kRowBlock; ++t) event["token_ids"].push_back(t + 1);
  const Told told = Tell({Payload({event})}, "", "tenant");
  EXPECT_EQ(told.blocks, static_cast<size_t>(kBlocks));
  EXPECT_EQ(told.match.device_tokens, 16u);
  EXPECT_EQ(Tell({Payload({event, Gone(event["block_hashes"])})}).blocks, 0u);
}

}  // namespace
}  // namespace ember::router
