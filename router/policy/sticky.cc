#include "router/policy/sticky.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "proto/base/checksum.h"
#include "router/policy/load.h"

namespace ember::router {
namespace {

// A replica takes a conversation as long as it stays within this much of the mean load (Mirrokni,
// Thorup, Zadimoghaddam, "Consistent hashing with bounded loads", 2016) or has a free slot.
constexpr double kBound = 1.25;
// A few requests above the mean are chance, not a hot spot.
constexpr double kSlack = 4;

// Highest random weight: each replica's own hash of the id, so that a replica's coming or going
// changes only the conversations that it wins or won. -weight/ln(u) makes its chance its weight's
// share (Schindelhauer, Schomaker, "Weighted distributed hash tables", 2005).
double ScoreOf(std::string_view conversation, const Replica& replica) {
  std::string key;
  key.reserve(conversation.size() + replica.id.size() + 16);
  key.append(replica.id).push_back('\0');
  if (replica.rank) key.append(std::to_string(*replica.rank)).push_back('\0');
  key.append(conversation);
  const double u = (static_cast<double>(Xxh3Of64(AsBytes(key)) >> 11) + 0.5) / 0x1p53;
  return -replica.weight / std::log(u);
}

// What a replica of weight 1 may have, in requests: `home`, where the conversation belongs, and
// each of the others.
struct Bounds {
  double home = 0;
  double others = 0;
};

Bounds BoundsOf(std::span<const Candidate> candidates, size_t home) {
  double requests = 1;  // the request itself
  double weight = 0;
  for (const Candidate& c : candidates) {
    requests += static_cast<double>(RequestsAt(*c.replica));
    weight += c.replica->weight;
  }
  const double mean = requests / weight;
  const Replica& at_home = *candidates[home].replica;
  // Of those who take what is too much for it each has an equal part: or a hot conversation would
  // fill the next one as well, and the one after it, while the last are idle.
  return {.home = std::max(std::ceil(kBound * mean), mean + kSlack),
          .others = std::ceil((requests - static_cast<double>(RequestsAt(at_home))) /
                              (weight - at_home.weight))};
}

}  // namespace

RoutingDecision StickyPolicy::Decide(const PolicyInput& input) const {
  if (input.conversation_id.empty()) {
    return DecisionFor(*this, input, DrawnByWeight(input.candidates, input.draw),
                       "no_conversation_id");
  }
  std::vector<std::pair<double, size_t>> order;
  order.reserve(input.candidates.size());
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    order.emplace_back(ScoreOf(input.conversation_id, *input.candidates[i].replica), i);
  }
  std::sort(order.begin(), order.end(), std::greater<>());
  const size_t home = order.front().second;
  const Bounds bounds = BoundsOf(input.candidates, home);
  for (const auto& [score, i] : order) {
    const double bound = i == home ? bounds.home : bounds.others;
    const Replica& replica = *input.candidates[i].replica;
    const auto then = static_cast<double>(RequestsAt(replica) + 1);
    if (then > std::max<double>(bound * replica.weight, replica.load.slots_total)) continue;
    if (i == home) return DecisionFor(*this, input, i, "conversation");
    return DecisionFor(*this, input, i,
                       "conversation_overflow: its replica " + input.candidates[home].replica->id +
                           " is over the bound");
  }
  return DecisionFor(*this, input, LeastLoaded(input.candidates, input.draw), "least_load");
}

}  // namespace ember::router
