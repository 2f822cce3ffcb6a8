// Cache groups of hybrid models, as vLLM tells of them: parts of blocks, and blocks that are left
// out.
#include "tests/unit/router_events/event_rows.h"

namespace ember::router {
namespace {

using nlohmann::literals::operator""_json;

class EventGroups : public EventRows {};

INSTANTIATE_TEST_SUITE_P(Shapes, EventGroups, testing::Bool(),
                         [](const auto& shape) { return shape.param ? "Arrays" : "Maps"; });

// vLLM tells of the part of a block with which a prompt ends as of a block of the hashes' size.
TEST_P(EventGroups, APartOfABlockTakesNothingFromTheWholeOnes) {  // A13, A15
  const auto part = [](const Json& parent) {
    Json event = Block(0, 201, parent);
    event["token_ids"] = {31, 32};
    event["block_size"] = 2;
    return event;
  };
  Json first = part(nullptr);
  first["token_ids"] = {1, 2};
  Check({
      {"after the whole blocks", {Whole(), part(104)}, 16, 16},
      {"twice, and gone", {Whole(), part(104), part(104), Gone({201})}, 16, 16},
      {"with another prompt's", {Whole(), part(999)}, 16, 16},
      {"of a prompt that has no whole one", {Whole(), part(nullptr)}, 16, 16},
      {"nobody knows yet that it is one", {first}, 2, 2},
      {"until the first whole block", {first, Whole()}, 16, 16},
      {"whichever part it is", {first, part(104), Whole(), part(104)}, 16, 16},
      {"in another group", {Whole(), Whole({{"group_idx", 1}}), part(104)}, 16, 16},
  });
}

// vLLM's events of windows and recurrent states have the tokens of all blocks, but the hashes of
// those alone that are kept.
Json Left(const Json& hashes, const Json& parent, std::vector<int> tokens, const Json& more) {
  Json event = {{"type", "BlockStored"},       {"block_hashes", hashes}, {"block_size", kRowBlock},
                {"parent_block_hash", parent}, {"lora_id", nullptr},     {"group_idx", 1}};
  for (int t = tokens[0]; t <= tokens[1]; ++t) event["token_ids"].push_back(t);
  event.update(more);
  return event;
}

TEST_P(EventGroups, OfRecurrentStatesTheLastOneIsTold) {  // A13
  const Json mamba = {{"kv_cache_spec_kind", "mamba"}};
  const Json group = {{"group_idx", 1}};
  const Json state = Left({104}, nullptr, {1, 16}, mamba);
  const Json first = Left({102}, nullptr, {1, 8}, mamba);
  const Json second = Left({104}, 102, {9, 16}, mamba);
  const Json none = Left(Json::array(), nullptr, {1, 16}, mamba);
  Check({
      {"the last one", {Whole(), state}, 16, 16},
      {"told first", {state, Whole()}, 16, 16},
      {"in two steps", {Whole(), first, second}, 16, 16},
      {"the second is gone", {Whole(), first, second, Gone({104}, group)}, 8, 8},
      {"the first is gone", {Whole(), first, second, Gone({102}, group)}, 16, 16},
      {"the last one is gone", {Whole(), state, Gone({104}, group)}, 0, 0},
      {"the attention's last block is", {Whole(), state, Gone({104})}, 0, 0},
      {"none is kept", {Whole(), none, state}, 16, 16},
      {"another prompt's", {Whole(), Left({7}, nullptr, {21, 36}, mamba)}, 0, 0},
  });
}

TEST_P(EventGroups, WhatIsLeftOutIsKnownByTheOtherGroupsHashes) {  // A13, B3
  const Json window =
      R"({"kv_cache_spec_kind":"sliding_window","kv_cache_spec_sliding_window":4})"_json;
  const auto tell = [&](const std::vector<Json>& events, const std::string& salt = "") {
    return Tell({Payload(events)}, "", salt).match.device_tokens;
  };
  const Json ends = Left({102, 104}, nullptr, {1, 16}, window);
  const Json gone = {{"group_idx", 1}};
  EXPECT_EQ(tell({Whole(), ends}), 16u);
  EXPECT_EQ(tell({ends, Whole()}), 16u);
  EXPECT_EQ(tell({Whole(), ends, Gone({104}, gone)}), 8u);
  EXPECT_EQ(tell({Whole(), ends, Gone({102}, gone)}), 16u);
  EXPECT_EQ(tell({Whole(), ends, Gone({103})}), 8u);
  // Smaller blocks than the other group's: those that it does not know are next to one it does.
  Json large = Whole({{"block_size", 8}});
  large["block_hashes"] = {102, 104};
  Json small = window;
  small.update({{"block_size", 2}});
  const Json tails = Left({7, 102, 8, 104}, nullptr, {1, 16}, small);
  EXPECT_EQ(tell({large, tails}), 16u);
  EXPECT_EQ(tell({large, tails, Gone({8}, gone)}), 8u);
  EXPECT_EQ(tell({large, tails, Gone({7}, gone)}), 16u);
  // The salt is the first block's, which is left out.
  const Json salted = Whole(R"({"extra_keys":[["tenant"],null,null,null]})"_json);
  EXPECT_EQ(tell({salted, ends}, "tenant"), 16u);
  EXPECT_EQ(tell({salted, ends}), 0u);
}

TEST_P(EventGroups, WhatCanNotBePlacedSpoilsNothingForLong) {  // A13
  const Json window =
      R"({"kv_cache_spec_kind":"sliding_window","kv_cache_spec_sliding_window":4})"_json;
  const auto told = [&](int unplaced, bool placed) {
    std::vector<std::string> batches = {Payload({Whole(), Whole({{"group_idx", 1}})})};
    for (int i = 0; i < unplaced; ++i) {
      batches.push_back(Payload({Left({9}, nullptr, {21, 36}, window)}));
      const Json known = Left({104}, nullptr, {1, 16}, window);
      if (placed) batches.push_back(Payload({Whole(), known}));
    }
    return Tell(batches);
  };
  EXPECT_EQ(told(3, false).match.device_tokens, 16u);
  EXPECT_TRUE(told(3, false).trusted);
  EXPECT_EQ(told(4, false).match.device_tokens, 0u) << "matched as one that tells nothing";
  EXPECT_FALSE(told(4, false).trusted) << "so that the router's own decisions count";
  EXPECT_EQ(told(20, true).match.device_tokens, 16u);
  EXPECT_TRUE(told(20, true).trusted);
}

TEST_P(EventGroups, OfAttentionInChunksTheEarlierOnesAreNotNeeded) {  // A13
  const Json group = {{"group_idx", 1}};
  const Json chunked =
      Whole(R"({"group_idx":1,"kv_cache_spec_kind":"chunked_local_attention"})"_json);
  Check({
      {"the earlier ones are gone", {Whole(), chunked, Gone({101, 102}, group)}, 16, 16},
      {"the last one is", {Whole(), chunked, Gone({103, 104}, group)}, 8, 8},
      {"all are", {Whole(), chunked, Gone({101, 102, 103, 104}, group)}, 0, 0},
  });
}

// A13, A14: vLLM's offloading leaves the salt out of its events, Mooncake's store the adapter.
TEST_P(EventGroups, ASlowerTierRenamesNoBlock) {
  const Json salted = Whole(R"({"extra_keys":[["tenant"],null,null,null]})"_json);
  const Json adapted = Whole({{"lora_name", "sql"}});
  const Json host = {{"medium", "CPU"}};
  const Json gone = Gone({101, 102, 103, 104});
  const Json rest = Block(3, 104, 999, host);
  Check({
      {"salted", {salted, Whole(host)}, 16, 16, "", "tenant"},
      {"is not there without the salt", {salted, Whole(host)}, 0, 0},
      {"it outlives the device", {salted, Whole(host), gone}, 0, 16, "", "tenant"},
      {"an adapter's", {adapted, Whole(host)}, 16, 16, "sql"},
      {"is not the base's", {adapted, Whole(host)}, 0, 0},
      {"half of it was told",
       {Block(0, 101, nullptr, {{"lora_name", "sql"}}), Whole(host)},
       4,
       16,
       "sql"},
      {"a parent that nobody knows", {adapted, rest, Gone({104})}, 12, 16, "sql"},
  });
}

}  // namespace
}  // namespace ember::router
