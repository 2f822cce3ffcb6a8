#include <algorithm>
#include <map>

#include "router/index/prefix_index.h"

namespace ember::router {
namespace {

// Blocks [from, to) of a chain.
struct BlockRun {
  size_t from = 0;
  size_t to = 0;
};

// The runs of blocks that somebody has in some tiers, in order; the last one may still go on.
class HeldRuns {
 public:
  void See(bool held, size_t block) {
    if (held == running_) return;
    if (held) {
      runs_.push_back({block, SIZE_MAX});
    } else {
      runs_.back().to = block;
    }
    running_ = held;
  }

  bool unbroken() const { return running_ && runs_.back().from == 0; }

  // The most tokens, of at most `tokens`, for which all that the group needs of them is held.
  uint64_t Usable(const GroupChain& group, uint64_t tokens) const {
    const uint64_t blocks = tokens / group.tokens_per_block;
    for (auto run = runs_.rbegin(); run != runs_.rend(); ++run) {
      const uint64_t end = std::min<uint64_t>(run->to, blocks);
      if (end <= run->from) continue;
      const uint64_t usable = end * group.tokens_per_block;
      // The next token's window is itself and one token less than the window before it.
      const bool all = group.window_tokens == 0 || group.window_tokens > usable;
      const uint64_t needed = all ? 0 : (usable + 1 - group.window_tokens) / group.tokens_per_block;
      if (run->from <= needed) return usable;
    }
    return 0;
  }

 private:
  std::vector<BlockRun> runs_;
  bool running_ = false;
};

// What one replica has of one group's chain.
struct GroupHolding {
  HeldRuns device;
  HeldRuns any_tier;
};
using GroupHoldings = std::map<LifeId, GroupHolding>;

void SeeMembers(std::span<const SetMember> members, size_t block, GroupHoldings* holdings) {
  auto member = members.begin();
  for (auto& [life, holding] : *holdings) {
    while (member != members.end() && member->life() < life) ++member;
    const bool there = member != members.end() && member->life() == life;
    holding.any_tier.See(there, block);
    holding.device.See(there && (member->tiers() & kDeviceTiers) != 0, block);
  }
}

bool AnyUnbroken(const GroupHoldings& holdings) {
  return std::ranges::any_of(holdings, [](const auto& h) { return h.second.any_tier.unbroken(); });
}

// The fixed point of what every group can use of what the others can.
uint64_t UsableByAll(std::span<const GroupChain> groups, std::span<const HeldRuns* const> runs,
                     uint64_t tokens) {
  for (size_t agreed = 0; agreed < groups.size() && tokens > 0;) {
    for (size_t g = 0; g < groups.size(); ++g) {
      const uint64_t usable = runs[g]->Usable(groups[g], tokens);
      agreed = usable == tokens ? agreed + 1 : 0;
      tokens = usable;
      if (agreed == groups.size()) break;
    }
  }
  return tokens;
}

}  // namespace

std::vector<GroupMatch> PrefixIndex::LookupGroups(std::span<const GroupChain> groups) const {
  std::vector<GroupMatch> found;
  const ReaderEpochs::Stay stay = blocks_.Enter();
  if (!stay || groups.empty()) return found;
  const HolderLives& lives = blocks_.lives();
  uint64_t tokens = UINT64_MAX;
  for (const GroupChain& group : groups) {
    if (group.tokens_per_block == 0) return found;
    tokens = std::min<uint64_t>(tokens, group.chain.size() * group.tokens_per_block);
  }
  std::vector<GroupHoldings> holdings(groups.size());
  const auto walk = [&](size_t g) {
    const GroupChain& group = groups[g];
    const size_t blocks = tokens / group.tokens_per_block;
    uint32_t node = 0;
    uint32_t set = 0;
    size_t block = 0;
    for (; block < blocks; ++block) {
      node = blocks_.Find(group.chain[block], node);
      const uint32_t before = set;
      set = node == 0 ? HolderSets::kEmpty : blocks_.SetOf(node);
      if (node != 0) blocks_.MarkUsed(node);
      if (set == before) continue;
      const auto members = set == 0 ? std::span<const SetMember>() : blocks_.sets().Members(set);
      for (const SetMember m : members) {
        const HolderLives::Living living = lives.Of(m.life());
        if (living.alive && living.kind == HolderKind::kReplica) holdings[g].try_emplace(m.life());
      }
      SeeMembers(members, block, &holdings[g]);
      if (group.window_tokens == 0 && !AnyUnbroken(holdings[g])) break;
    }
    tokens = std::min<uint64_t>(tokens, block * group.tokens_per_block);
  };
  // Groups that need everything end the walk of the others.
  for (size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].window_tokens == 0) walk(g);
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].window_tokens != 0) walk(g);
  }
  std::vector<const HeldRuns*> device(groups.size());
  std::vector<const HeldRuns*> any_tier(groups.size());
  for (const auto& [life, first] : holdings[0]) {
    bool everywhere = true;
    for (size_t g = 0; g < groups.size(); ++g) {
      const auto holding = holdings[g].find(life);
      everywhere = everywhere && holding != holdings[g].end();
      if (!everywhere) break;
      device[g] = &holding->second.device;
      any_tier[g] = &holding->second.any_tier;
    }
    if (!everywhere) continue;
    const GroupMatch match{.holder = lives.Of(life).holder,
                           .device_tokens = UsableByAll(groups, device, tokens),
                           .any_tier_tokens = UsableByAll(groups, any_tier, tokens)};
    if (match.any_tier_tokens > 0 && match.holder != kNoHolder) found.push_back(match);
  }
  return found;
}

}  // namespace ember::router
