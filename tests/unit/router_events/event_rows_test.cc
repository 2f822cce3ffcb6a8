// What a prompt's blocks are known by: order, parents, hashes, media, adapters, extra keys, groups.
#include "tests/unit/router_events/event_rows.h"

#include <limits>

namespace ember::router {
namespace {

using nlohmann::literals::operator""_json;

class EventCases : public EventRows {};

INSTANTIATE_TEST_SUITE_P(Shapes, EventCases, testing::Bool(),
                         [](const auto& shape) { return shape.param ? "Arrays" : "Maps"; });

TEST_P(EventCases, OrderRepetitionAndParents) {  // A6, A19
  Json orphan = Whole();
  orphan.erase("parent_block_hash");
  const Json empty = Whole(R"({"block_hashes":[],"token_ids":[]})"_json);
  Check({
      {"a prompt in one event", {Whole()}, 16, 16},
      {"a block an event", {Block(0, 1, nullptr), Block(1, 2, 1), Block(2, 3, 2)}, 12, 12},
      {"told twice", {Whole(), Whole(), Block(1, 102, 101)}, 16, 16},
      {"told twice, removed once", {Whole(), Whole(), Gone({103})}, 8, 8},
      {"removed before it is stored", {Gone({101, 102, 103, 104}), Whole()}, 16, 16},
      {"a hole", {Whole(), Gone({102})}, 4, 4},
      {"that is filled", {Whole(), Gone({102}), Block(1, 102, 101)}, 16, 16},
      {"the first block goes", {Whole(), Gone({101})}, 0, 0},
      {"and comes back", {Whole(), Gone({101}), Block(0, 101, nullptr)}, 16, 16},
      {"all go, the first one first", {Whole(), Gone({101}), Gone({102, 103}), Gone({104})}, 0, 0},
      {"a parent that nobody told of", {Block(1, 102, 101), Block(2, 103, 102)}, 0, 0},
      {"and tells of later", {Block(1, 102, 101), Block(0, 101, nullptr)}, 4, 4},
      {"and its child again", {Block(1, 2, 1), Block(0, 1, nullptr), Block(1, 2, 1)}, 8, 8},
      {"a parent of another form", {Block(0, 5, nullptr), Block(1, 6, "5")}, 4, 4},
      {"a hash that names another block now",
       {Block(0, 1, nullptr), Block(1, 2, 1), Gone({2}), Block(1, 7, 1), Block(2, 2, 7)},
       12,
       12},
      {"and did so without a removal",
       {Block(0, 1, nullptr), Block(1, 2, 1), Block(1, 7, 1), Block(2, 2, 7), Gone({7})},
       4,
       4},
      {"no parent's field", {orphan}, 16, 16},
      {"an empty event", {empty, Whole(), Gone(Json::array())}, 16, 16},
  });
}

TEST_P(EventCases, HashesOfEveryKind) {  // A12
  const auto bytes = [](size_t n, uint8_t each) {
    return Json::binary(std::vector<uint8_t>(n, each));
  };
  const std::vector<Json> hashes = {
      Json(0),
      Json(-1),
      Json(std::numeric_limits<int64_t>::min()),
      Json(std::numeric_limits<uint64_t>::max()),
      Json((uint64_t{1} << 63) + 12345),
      Json("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
      Json(""),
      bytes(8, 0xff),
      bytes(16, 0x80),
      bytes(32, 0x00),
      bytes(32, 0xff),
      bytes(64, 0x01),
  };
  for (const Json& first : hashes) {
    for (const Json& second : hashes) {
      if (first == second) continue;
      const Json root = Block(0, first, nullptr), next = Block(1, second, first);
      Check({{"both", {root, next}, 8, 8},
             {"the second is gone", {root, next, Gone(Json::array({second}))}, 4, 4}});
    }
  }
}

TEST_P(EventCases, Media) {  // A13
  const auto on = [](const Json& medium) { return Json{{"medium", medium}}; };
  const Json named = R"({"medium":"CPU","token_ids":[],"block_size":0})"_json;
  Check({
      {"nil", {Whole(on(nullptr))}, 16, 16},
      {"empty", {Whole(on(""))}, 16, 16},
      {"GPU", {Whole(on("GPU"))}, 16, 16},
      {"in small letters", {Whole(on("gpu"))}, 16, 16},
      {"CPU", {Whole(on("CPU"))}, 0, 16},
      {"DISK", {Whole(on("DISK"))}, 0, 16},
      {"one that nobody knows", {Whole(on("TAPE"))}, 0, 16},
      {"and a removal from it", {Whole(on("TAPE")), Gone({103}, on("TAPE"))}, 0, 8},
      {"a number", {Whole(on(2))}, 0, 16},
      {"and a removal from it", {Whole(on(2)), Gone({103}, on(2))}, 0, 8},
      {"a removal names none", {Whole(on("GPU")), Gone({103})}, 8, 8},
      {"and the other tier stays", {Whole(), Whole(on("CPU")), Gone({103})}, 8, 16},
      {"the device stays", {Whole(), Whole(on("CPU")), Gone({102}, on("CPU"))}, 16, 16},
      {"removed where it is not", {Whole(), Gone({102}, on("DISK"))}, 16, 16},
      {"both go", {Whole(), Whole(on("CPU")), Gone({102}), Gone({102}, on("CPU"))}, 4, 4},
      {"copied by name", {Whole(), Whole(named), Gone({101, 102, 103, 104})}, 0, 16},
      {"three tiers",
       {Whole(), Whole(on("CPU")), Whole(on("DISK")), Gone({104}), Gone({102}, on("CPU"))},
       12,
       16},
      {"the start on the device, the rest on the disk",
       {Block(0, 1, nullptr), Block(1, 2, 1, on("DISK")), Block(2, 3, 2, on("DISK"))},
       4,
       12},
  });
  EXPECT_EQ(Tell({Payload({Whole(on("TAPE")), Gone({1}, on(2))})}).unknown, 2u);
}

TEST_P(EventCases, Adapters) {  // A14, B3, B4
  const Json named = R"({"lora_name":"sql","lora_id":3})"_json;
  const Json keyed = R"({"lora_name":"sql","extra_keys":[["sql"],["sql"],["sql"],["sql"]]})"_json;
  const Json doubled =
      R"({"lora_name":"sql","extra_keys":[["sql","sql"],["sql"],["sql"],["sql"]]})"_json;
  const Json salted =
      R"({"lora_name":"sql","extra_keys":[["sql","tenant"],["sql"],["sql"],["sql"]]})"_json;
  const Json empty = R"({"lora_name":""})"_json;
  const auto numbered = [](const Json& id) { return Json{{"lora_id", id}}; };
  Check({
      {"the adapter's", {Whole(named)}, 16, 16, "sql"},
      {"not the base's", {Whole(named)}, 0, 0},
      {"not another's", {Whole(named)}, 0, 0, "law"},
      {"its name among the extra keys", {Whole(keyed)}, 16, 16, "sql"},
      {"is no salt", {Whole(keyed)}, 0, 0, "", "sql"},
      {"salted, too", {Whole(salted)}, 16, 16, "sql", "tenant"},
      {"without the salt", {Whole(salted)}, 0, 0, "sql"},
      {"a salt that is the adapter's name", {Whole(doubled)}, 16, 16, "sql", "sql"},
      {"and is asked for without it", {Whole(doubled)}, 0, 0, "sql"},
      {"an empty name is none", {Whole(empty)}, 16, 16},
      {"number 0 is none", {Whole(numbered(0))}, 16, 16},
      {"another number is one", {Whole(numbered(3))}, 0, 0},
      {"that nobody asks for by it", {Whole(numbered(3))}, 0, 0, "3"},
      {"a name in its place", {Whole(numbered("sql"))}, 16, 16, "sql"},
      {"is not the base's", {Whole(numbered("sql"))}, 0, 0},
      {"both", {Whole(named), Whole(R"({"block_hashes":[1,2,3,4]})"_json), Gone({2})}, 4, 4},
  });
}

TEST_P(EventCases, SaltsAsSGLangTellsThem) {  // A11, A14, B3
  if (GetParam()) return;                     // its events with salts are maps
  const Json salt = {{"cache_salt", "tenant"}};
  const Json named = R"({"cache_salt":"tenant","lora_name":"sql"})"_json;
  Check({
      {"with the salt", {Whole(salt)}, 16, 16, "", "tenant"},
      {"without it", {Whole(salt)}, 0, 0},
      {"with another", {Whole(salt)}, 0, 0, "", "other"},
      {"for each block", {Block(0, 1, nullptr, salt), Block(1, 2, 1, salt)}, 8, 8, "", "tenant"},
      {"none", {Whole({{"cache_salt", nullptr}})}, 16, 16},
      {"an adapter's", {Whole(named)}, 16, 16, "sql", "tenant"},
      {"that of the base", {Whole(named)}, 0, 0, "", "tenant"},
  });
}

TEST_P(EventCases, ExtraKeys) {  // B3
  const auto keys = [](const char* extra) { return Json{{"extra_keys", Json::parse(extra)}}; };
  const Json salt = keys(R"([["tenant"],null,null,null])");
  const Json embeddings = Json{
      {"extra_keys",
       Json::array({Json::array({Json::binary(std::vector<uint8_t>(32, 7))}), Json(), Json()})}};
  Check({
      {"nil", {Whole(keys("null"))}, 16, 16},
      {"a nil for each block", {Whole(keys("[null,null,null,null]"))}, 16, 16},
      {"an empty list for each", {Whole(keys("[[],[],[],[]]"))}, 16, 16},
      {"fewer than blocks", {Whole(keys("[null]"))}, 16, 16},
      {"none", {Whole(keys("[]"))}, 16, 16},
      {"a salt", {Whole(salt)}, 16, 16, "", "tenant"},
      {"is asked for without it", {Whole(salt)}, 0, 0},
      {"or with another", {Whole(salt)}, 0, 0, "", "other"},
      {"none is told", {Whole()}, 0, 0, "", "tenant"},
      {"a salt in no list", {Whole(keys(R"(["tenant",null])"))}, 16, 16, "", "tenant"},
      {"an image in the third block",
       {Whole(keys(R"([null,null,[["hash",3]],[["hash",3]]])"))},
       8,
       8},
      {"its hash alone", {Whole(keys(R"([null,null,["hash"],["hash"]])"))}, 8, 8},
      {"its parts without a list", {Whole(keys(R"([null,["hash",3],null,null])"))}, 4, 4},
      {"in a map", {Whole(keys(R"([null,{"hash":3},null,null])"))}, 4, 4},
      {"a salt, and an image in the second block",
       {Whole(keys(R"([["tenant"],[["hash",0]],null,null])"))},
       4,
       4,
       "",
       "tenant"},
      {"embeddings", {Whole(embeddings)}, 0, 0},
      {"the salt is told by the first block's event alone",
       {Block(0, 1, nullptr, keys(R"([["tenant"]])")), Block(1, 2, 1)},
       8,
       8,
       "",
       "tenant"},
  });
}

TEST_P(EventCases, GroupsAndWindows) {  // A13
  const auto in = [](const Json& group) { return Json{{"group_idx", group}}; };
  const Json window =
      R"({"group_idx":1,"kv_cache_spec_kind":"sliding_window","kv_cache_spec_sliding_window":8})"_json;
  const Json state = R"({"group_idx":1,"kv_cache_spec_kind":"mamba"})"_json;
  Check({
      {"group 0 is the one that is not told", {Whole(in(0)), Gone({104})}, 12, 12},
      {"so is nil", {Whole(in(nullptr)), Gone({104}, in(0))}, 12, 12},
      {"both groups", {Whole(in(0)), Whole(in(1))}, 16, 16},
      {"one loses a block", {Whole(in(0)), Whole(in(1)), Gone({103}, in(1))}, 8, 8},
      {"the other does", {Whole(in(0)), Whole(in(1)), Gone({103}, in(0))}, 8, 8},
      {"a third has nothing to lose", {Whole(in(0)), Whole(in(1)), Gone({103}, in(2))}, 16, 16},
      {"out of the window", {Whole(in(0)), Whole(window), Gone({101, 102}, in(1))}, 16, 16},
      {"within it", {Whole(in(0)), Whole(window), Gone({104}, in(1))}, 12, 12},
      {"of a recurrent state only the last block is needed",
       {Whole(in(0)), Whole(state), Gone({101, 102, 103}, in(1))},
       16,
       16},
  });
}

}  // namespace
}  // namespace ember::router
