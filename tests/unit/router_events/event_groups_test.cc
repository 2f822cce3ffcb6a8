// Cache groups of hybrid models, as vLLM tells of them: parts of blocks, and blocks that are left
// out.
#include "tests/unit/router_events/event_rows.h"

namespace ember::router {
namespace {

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

}  // namespace
}  // namespace ember::router
