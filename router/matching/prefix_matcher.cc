#include "router/matching/prefix_matcher.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "proto/base/checksum.h"
#include "proto/model/segment.h"

namespace ember::router {
namespace {

// Of our own names. Larger blocks cost less, and a match is only ever cut by less than one.
constexpr uint32_t kOurTokensPerBlock = 64;

const std::vector<BlockHash> kNoChain;

uint32_t TokensOf(uint64_t blocks, uint32_t tokens_per_block, const TokenizedPrompt& prompt) {
  return static_cast<uint32_t>(std::min<uint64_t>(blocks * tokens_per_block, prompt.token_count));
}

}  // namespace

PrefixMatcher::Naming PrefixMatcher::NamingOf(const ReplicaSet::Member& member,
                                              const TokenizedPrompt& prompt) const {
  const bool real_tokens = prompt.has_tokens() && prompt.source != TokenSource::kText;
  const bool named_by_agent =
      member.agent_space && prompt.adapter.empty() &&
      (prompt.ns == member.agent_space->id || (real_tokens && member.agent_space->seed != 0));
  if (named_by_agent) return Naming::kAgent;
  // While its events are not whole, it is presumed to hold what it was sent, too.
  if (events_ != nullptr && events_->trusted(member.holder) && real_tokens) return Naming::kEvents;
  return Naming::kOurs;
}

KeySpace PrefixMatcher::OurSpace(const TokenizedPrompt& prompt) const {
  // What two prompts with equal tokens must agree in to share blocks.
  std::string identity;
  for (const std::string* part :
       {&prompt.model, &prompt.adapter, &prompt.lora_path, &prompt.salt}) {
    const uint64_t size = part->size();
    identity.append(reinterpret_cast<const char*>(&size), sizeof size).append(*part);
  }
  KeySpace space{.id = {}, .seed = secret_, .tokens_per_block = kOurTokensPerBlock};
  const Checksum digest = Xxh3Of(AsBytes(identity));
  static_assert(sizeof digest == sizeof space.id.bytes);
  std::memcpy(space.id.bytes.data(), &digest, sizeof digest);
  return space;
}

const std::vector<BlockHash>& PrefixMatcher::ChainFor(const ReplicaSet::Member& member,
                                                      const TokenizedPrompt& prompt,
                                                      std::optional<KeySpace>* ours) const {
  if (NamingOf(member, prompt) == Naming::kAgent) {
    return prompt.has_tokens() ? prompt.ChainIn(*member.agent_space) : prompt.chain;
  }
  if (!prompt.has_tokens()) return kNoChain;
  if (!*ours) *ours = OurSpace(prompt);
  return prompt.ChainIn(**ours);
}

uint64_t PrefixMatcher::HeldTokens(const ReplicaSet::Member& member) const {
  double per_block = kOurTokensPerBlock;
  if (member.agent_space) {
    per_block = member.agent_space->tokens_per_block;
  } else if (events_ != nullptr && events_->trusted(member.holder)) {
    per_block = events_->TokensPerBlock(member.holder);
  }
  return static_cast<uint64_t>(static_cast<double>(index_.blocks_held(member.holder)) * per_block);
}

bool PrefixMatcher::Branches(const ReplicaSet::Member& member, const TokenizedPrompt& prompt,
                             uint64_t tokens) const {
  if (events_ != nullptr && events_->Branches(member.holder, prompt, tokens)) return true;
  // Of our own names the index knows no order.
  if (NamingOf(member, prompt) != Naming::kAgent) return false;
  std::optional<KeySpace> ours;
  const std::vector<BlockHash>& chain = ChainFor(member, prompt, &ours);
  const size_t blocks =
      std::min<size_t>(tokens / member.agent_space->tokens_per_block, chain.size());
  return blocks > 0 && index_.GoesOn(chain[blocks - 1]);
}

void PrefixMatcher::Match(const TokenizedPrompt& prompt, Scope scope,
                          std::vector<Candidate>* candidates, PolicyInput* input) {
  input->tokens_known = true;
  if (prompt.prompt_logprobs) scope = {.replicas = false, .stores = false};
  input->prompt_tokens = prompt.token_count;
  // There is no store that nobody tells of, and nobody loads from.
  scope.stores = scope.stores && (!index_.presumes_stored() ||
                                  std::ranges::any_of(*candidates, [](const Candidate& c) {
                                    return c.replica->load_tokens_per_ms > 0;
                                  }));
  std::optional<KeySpace> ours;
  std::array<Candidate*, kMaxHolders> by_holder{};
  EventFeed::Holders named_by_events;
  EventFeed::Holders candidate_holders;
  struct Space {
    const std::vector<BlockHash>* chain;
    uint32_t tokens_per_block;
    bool stored;  // the stores use the same names
  };
  std::vector<Space> spaces;  // each looked up once: in most fleets there is one
  std::vector<const std::vector<BlockHash>*> chain_of(candidates->size());
  for (size_t i = 0; i < candidates->size(); ++i) {
    Candidate& c = candidates->at(i);
    ReplicaSet::Member& member = replicas_.at(c.number);
    const Naming naming = NamingOf(member, prompt);
    const bool by_events = naming == Naming::kEvents;
    c.match.store_tokens = 0;  // unless the stores use its names
    // What was presumed under our own names would stay for ever: no event takes it away.
    if (by_events) presumed_.Clear(member.holder);
    if (member.holder < kMaxHolders) {
      by_holder[member.holder] = &c;
      candidate_holders.set(member.holder);
      named_by_events[member.holder] = by_events;
      member.view.cache.held_tokens = HeldTokens(member);
    }
    if (by_events) continue;
    const std::vector<BlockHash>& chain = ChainFor(member, prompt, &ours);
    chain_of[i] = &chain;
    const bool known = std::any_of(spaces.begin(), spaces.end(),
                                   [&](const Space& s) { return s.chain == &chain; });
    if (known || chain.empty()) continue;
    const bool agent = naming == Naming::kAgent;
    spaces.push_back(
        {&chain, agent ? member.agent_space->tokens_per_block : kOurTokensPerBlock, agent});
  }
  for (const Space& space : spaces) {
    const PrefixLookup found =
        index_.Lookup(*space.chain, space.stored ? BlocksPerSegment(space.tokens_per_block) : 1);
    for (const HolderMatch& held : found.holders) {
      Candidate* c = by_holder[held.holder];
      if (c == nullptr || named_by_events[held.holder] || !scope.replicas) continue;
      c->match.device_tokens = TokensOf(held.device_blocks, space.tokens_per_block, prompt);
      c->match.any_tier_tokens = TokensOf(held.any_tier_blocks, space.tokens_per_block, prompt);
      if (events_ == nullptr || space.stored) continue;
      // Nothing but our own decisions stands under our own names: the device's, and no other
      // tier's.
      c->match.any_tier_tokens = c->match.device_tokens =
          static_cast<uint32_t>(events_->LeftOf(held.holder, prompt, c->match.device_tokens));
    }
    if (!space.stored || !scope.stores || !scope.replicas) continue;
    const uint32_t stored = TokensOf(found.store_blocks, space.tokens_per_block, prompt);
    input->store_tokens = std::max<uint64_t>(input->store_tokens, stored);
    for (size_t i = 0; i < candidates->size(); ++i) {
      if (chain_of[i] == space.chain) candidates->at(i).match.store_tokens = stored;
    }
  }
  if (events_ != nullptr && scope.replicas) {
    for (const GroupMatch& held : events_->Match(prompt, candidate_holders)) {
      Candidate* c = by_holder[held.holder];
      if (c == nullptr) continue;
      c->match.device_tokens =
          std::max(c->match.device_tokens, TokensOf(held.device_tokens, 1, prompt));
      c->match.any_tier_tokens =
          std::max(c->match.any_tier_tokens, TokensOf(held.any_tier_tokens, 1, prompt));
    }
  }
  const auto best = std::ranges::max_element(
      *candidates, {}, [](const Candidate& c) { return c.match.device_tokens; });
  const uint64_t longest = best->match.device_tokens;
  if (longest > 0 && Branches(replicas_.at(best->number), prompt, longest)) {
    input->branch_tokens = longest;
  }
}

PrefixMatcher::Presumed PrefixMatcher::Presume(ReplicaNumber replica,
                                               const TokenizedPrompt& prompt) {
  const ReplicaSet::Member& member = replicas_.at(replica);
  Presumed presumed{.holder = member.holder};
  const Naming naming = NamingOf(member, prompt);
  if (events_ != nullptr && naming != Naming::kAgent && member.holder != kNoHolder) {
    // What its events say is to be true, whether or not it is all that it holds.
    presumed.promise = events_->MakePromise(member.holder, prompt);
  }
  if (naming == Naming::kEvents) {
    presumed_.Clear(member.holder);
    for (const BlockChain* chain : events_->ChainsOf(member.holder, prompt)) {
      presumed.reported.push_back(index_.Presume(member.holder, *chain));
    }
    return presumed;
  }
  std::optional<KeySpace> ours;
  const std::vector<BlockHash>& chain = ChainFor(member, prompt, &ours);
  if (chain.empty() || member.holder == kNoHolder) return presumed;
  if (naming == Naming::kAgent) {
    presumed.reported.push_back(index_.Presume(member.holder, chain));
    return presumed;
  }
  const size_t known = index_.Lookup(chain).Of(member.holder).device_blocks;
  presumed.predicted_blocks = known;
  if (events_ != nullptr) {
    presumed.predicted_blocks =
        events_->LeftOf(member.holder, prompt, known * kOurTokensPerBlock) / kOurTokensPerBlock;
    presumed.removed = events_->OnSent(member.holder, prompt);
  }
  presumed.before = presumed_.Add(member.holder, chain,
                                  member.view.cache.capacity_tokens / kOurTokensPerBlock, known);
  presumed.when = presumed_.now(member.holder);
  // Else its reply says nothing about what was held.
  presumed.counted_alone = prompt.counted_alone();
  return presumed;
}

void PrefixMatcher::Settle(const Presumed& presumed, std::optional<uint64_t> cached) {
  for (const PrefixIndex::Presumption p : presumed.reported) index_.Settle(presumed.holder, p);
  if (events_ != nullptr && cached) events_->OnCachedTokens(presumed.promise, *cached);
  if (!presumed.reported.empty()) return;
  if (presumed.before.empty() || !presumed.counted_alone || !cached) return;
  // Engines count in blocks of their own, and compute the last token of what they hold whole.
  const size_t found = (*cached + 2 * kOurTokensPerBlock - 1) / kOurTokensPerBlock;
  if (found >= presumed.predicted_blocks) return;
  presumed_.Contradict(presumed.holder, presumed.before, found);
}

void PrefixMatcher::TakeBack(ReplicaNumber replica, const TokenizedPrompt& prompt,
                             const Presumed& presumed) {
  if (replicas_.at(replica).holder != presumed.holder) return;
  for (const PrefixIndex::Presumption p : presumed.reported) index_.TakeBack(presumed.holder, p);
  if (events_ != nullptr) events_->OnRefused(presumed.holder, presumed.removed);
  if (presumed.before.empty()) return;
  presumed_.TakeBack(presumed.holder, prompt.ChainIn(OurSpace(prompt)), presumed.before,
                     presumed.when);
}

void PrefixMatcher::ForgetStored(ReplicaNumber replica, const TokenizedPrompt& prompt,
                                 uint64_t found) {
  const ReplicaSet::Member& member = replicas_.at(replica);
  if (NamingOf(member, prompt) != Naming::kAgent) return;
  std::optional<KeySpace> ours;
  index_.ForgetStored(ChainFor(member, prompt, &ours),
                      found / member.agent_space->tokens_per_block);
}

const BlockChain* PrefixMatcher::AgentChain(ReplicaNumber replica,
                                            const TokenizedPrompt& prompt) const {
  const ReplicaSet::Member& member = replicas_.at(replica);
  if (NamingOf(member, prompt) != Naming::kAgent) return nullptr;
  std::optional<KeySpace> ours;
  return &ChainFor(member, prompt, &ours);
}

void PrefixMatcher::Forget(ReplicaNumber replica) {
  const HolderId holder = replicas_.at(replica).holder;
  if (holder == kNoHolder) return;
  presumed_.Forget(holder);
  index_.ClearHolder(holder);
}

}  // namespace ember::router
