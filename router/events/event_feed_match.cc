#include <algorithm>
#include <utility>

#include "router/events/event_feed.h"

namespace ember::router {

std::vector<GroupMatch> EventFeed::Match(const TokenizedPrompt& prompt, const Holders& among) {
  std::vector<GroupMatch> found;
  if (!prompt.has_tokens()) return found;
  if (std::exchange(kinds_stale_, false)) SortIntoKinds();
  for (const Kind& kind : kinds_) {
    if ((kind.holders & among).none()) continue;
    std::vector<GroupChain> groups;
    for (const auto& [number, group] : kind.layout.groups) {
      groups.push_back({ChainIn(kind.model, prompt, number, group.block_size), group.block_size,
                        group.window_tokens});
    }
    LookUp(kind, groups, &found);
    for (const uint32_t size : kind.layout.other_sizes) {
      LookUp(kind, {{ChainIn(kind.model, prompt, 0, size), size, 0}}, &found);
    }
  }
  return found;
}

std::string EventFeed::AdapterOf(const std::string& model, const TokenizedPrompt& prompt) const {
  if (prompt.adapter_known || !prompt.adapter.empty()) return prompt.adapter;
  // Engines serve an adapter under its name as the model, SGLang as BASE:ADAPTER or by a member
  // that names it. Where nobody says that it is one, it is when events of such a replica have told
  // of it: another model may have the name for its own.
  const std::string& name = prompt.model;
  const size_t colon = name.find(':');
  const std::string after = colon == name.npos ? std::string() : name.substr(colon + 1);
  for (const std::string& asked : {name, after, prompt.lora_path}) {
    if (adapters_.contains({model, asked})) return asked;
  }
  // One that was never told of has nothing yet: it is not the base model's.
  return !after.empty() && name.substr(0, colon) == model ? after : prompt.lora_path;
}

const BlockChain& EventFeed::ChainIn(const std::string& model, const TokenizedPrompt& prompt,
                                     uint32_t group, uint32_t block_size) {
  return prompt.ChainIn(spaces_.Of({.model = model,
                                    .adapter = AdapterOf(model, prompt),
                                    .salt = prompt.salt,
                                    .group = group,
                                    .block_size = block_size}));
}

uint64_t EventFeed::LeftOf(HolderId holder, const TokenizedPrompt& prompt, uint64_t tokens) {
  const auto it = holders_.find(holder);
  if (it == holders_.end() || it->second.removed.empty() || !prompt.has_tokens()) return tokens;
  const std::string& model = sources_.at(it->second.source).replica.model;
  for (const auto& [number, group] : it->second.layout.groups) {
    if (!it->second.layout.NeedsAll(number)) continue;
    const size_t blocks = tokens / group.block_size;
    const BlockChain& chain = ChainIn(model, prompt, number, group.block_size);
    const size_t left = it->second.removed.Before(chain, blocks);
    if (left < std::min(blocks, chain.size())) tokens = left * group.block_size;
  }
  return tokens;
}

std::vector<BlockHash> EventFeed::OnSent(HolderId holder, const TokenizedPrompt& prompt) {
  std::vector<BlockHash> removed;
  const auto it = holders_.find(holder);
  if (it == holders_.end() || it->second.removed.empty()) return removed;
  for (const BlockChain* chain : ChainsOf(holder, prompt)) {
    const std::vector<BlockHash> erased = it->second.removed.Erase(*chain);
    removed.insert(removed.end(), erased.begin(), erased.end());
  }
  return removed;
}

void EventFeed::OnRefused(HolderId holder, std::span<const BlockHash> removed) {
  const auto it = holders_.find(holder);
  if (it == holders_.end() || trusted(holder)) return;
  // What was stored meanwhile is matched by that, whatever is presumed.
  for (const BlockHash& block : removed) it->second.removed.Add(block);
}

std::vector<const BlockChain*> EventFeed::ChainsOf(HolderId holder, const TokenizedPrompt& prompt) {
  std::vector<const BlockChain*> chains;
  const auto it = holders_.find(holder);
  if (it == holders_.end() || !prompt.has_tokens()) return chains;
  const std::string& model = sources_.at(it->second.source).replica.model;
  for (const auto& [number, group] : it->second.layout.groups) {
    chains.push_back(&ChainIn(model, prompt, number, group.block_size));
  }
  return chains;
}

void EventFeed::LookUp(const Kind& kind, const std::vector<GroupChain>& groups,
                       std::vector<GroupMatch>* found) const {
  for (const GroupMatch& match : index_.LookupGroups(groups)) {
    if (!kind.holders.test(match.holder)) continue;
    const auto same = kind.layout.other_sizes.empty()
                          ? found->end()
                          : std::find_if(found->begin(), found->end(), [&](const GroupMatch& m) {
                              return m.holder == match.holder;
                            });
    if (same == found->end()) {
      found->push_back(match);
    } else {
      same->any_tier_tokens = std::max(same->any_tier_tokens, match.any_tier_tokens);
    }
  }
}

void EventFeed::SortIntoKinds() {
  kinds_.clear();
  for (const auto& [holder, state] : holders_) {
    if (state.layout.groups.empty() || Unreadable(state)) continue;
    const std::string& model = sources_.at(state.source).replica.model;
    auto kind = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& k) {
      return k.model == model && k.layout == state.layout;
    });
    if (kind == kinds_.end()) {
      kind = kinds_.insert(kind, {.model = model, .layout = state.layout, .holders = {}});
    }
    kind->holders.set(holder);
  }
}

std::string_view EventFeed::StateOf(HolderId holder) const {
  const auto it = std::ranges::find_if(sources_, [&](const auto& s) {
    const EventReplica& replica = s.second.replica;
    const size_t place = s.second.rank - replica.first_rank;
    return replica.holders[place] == holder || s.second.spoken_for.contains(holder);
  });
  if (it == sources_.end()) return "none";
  if (!it->second.connected) return "unreachable";
  const auto state = holders_.find(holder);
  if (state == holders_.end() || state->second.layout.groups.empty()) return "silent";
  return trusted(holder) ? "whole" : "partial";
}

bool EventFeed::Branches(HolderId holder, const TokenizedPrompt& prompt, uint64_t tokens) {
  const auto it = holders_.find(holder);
  if (it == holders_.end() || !prompt.has_tokens()) return false;
  const std::string& model = sources_.at(it->second.source).replica.model;
  return std::ranges::any_of(it->second.layout.groups, [&](const auto& g) {
    const BlockChain& chain = ChainIn(model, prompt, g.first, g.second.block_size);
    const size_t blocks = std::min<size_t>(tokens / g.second.block_size, chain.size());
    return blocks > 0 && index_.GoesOn(chain[blocks - 1]);
  });
}

bool EventFeed::trusted(HolderId holder) const {
  const auto it = holders_.find(holder);
  return it != holders_.end() && !it->second.layout.groups.empty() && !Unreadable(it->second) &&
         sources_.at(it->second.source).trusted;
}

double EventFeed::TokensPerBlock(HolderId holder) const {
  const auto it = holders_.find(holder);
  double blocks_per_token = 0;
  if (it != holders_.end()) {
    for (const auto& [number, group] : it->second.layout.groups) {
      if (group.block_size > 0) blocks_per_token += 1.0 / group.block_size;
    }
  }
  return blocks_per_token > 0 ? 1 / blocks_per_token : 0;
}

}  // namespace ember::router
