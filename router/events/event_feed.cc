#include "router/events/event_feed.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace ember::router {
namespace {

// Events that leave out blocks, nobody knows which, more than others: after so many the holder is
// taken as one that tells nothing. A group of which little is known would spoil all matches.
constexpr uint32_t kUnplacedToGiveUp = 4;
constexpr Duration kBetweenWarnings = seconds(1);
// A name that found no room is only less well guessed.
constexpr size_t kMaxAdapters = 4096;
// TokenExtra's kind for what an engine's extra keys say.
constexpr uint8_t kEventExtra = 1;
// To look at a block of a chain is so much less work than to name it.
constexpr size_t kLooksPerBlock = 4;
constexpr size_t kEmptyingWork = 64;  // blocks

// Whether to say something about a source: a hostile one shall not fill the log.
bool MayWarn(std::optional<TimePoint>& warned_at) {
  const TimePoint now = SteadyClock().Now();
  if (warned_at && now - *warned_at < kBetweenWarnings) return false;
  warned_at = now;
  return true;
}

}  // namespace

void EventFeed::AddSource(EventSourceId source, EventReplica replica, uint32_t rank) {
  EMBER_CHECK(rank >= replica.first_rank && rank - replica.first_rank < replica.holders.size(),
              "the rank is the replica's");
  const auto [place, added] = sources_.try_emplace(source);
  EMBER_CHECK(added, "a source is added once");
  place->second = {.replica = std::move(replica), .rank = rank};
  metrics_.untrusted.Add(1);
}

void EventFeed::RemoveSource(EventSourceId source) {
  const auto it = sources_.find(source);
  if (it == sources_.end()) return;
  if (!it->second.trusted) metrics_.untrusted.Add(-1);
  std::erase_if(holders_, [&](const auto& h) { return h.second.source == source; });
  sources_.erase(it);
  for (auto& [id, other] : sources_) {
    std::erase_if(other.spoken_for, [&](HolderId holder) { return !holders_.contains(holder); });
  }
  kinds_stale_ = true;
}

void EventFeed::OnStored(EventSourceId source, std::optional<uint32_t> rank,
                         const KvStored& event) {
  const std::optional<HolderId> holder = HolderOf(source, rank);
  if (!holder) return;
  metrics_.stored.Add();
  metrics_.blocks_stored.Add(event.keys.size());
  if (event.tokens.empty()) return StoreNamed(*holder, event);
  Source& from = sources_.at(source);
  if (!event.adapter.empty() && adapters_.size() < kMaxAdapters) {
    adapters_.emplace(from.replica.model, event.adapter);
  }
  Holder& state = holders_.at(*holder);
  switch (state.layout.Learn(event)) {
    case CacheLayout::Change::kNone:
      break;
    case CacheLayout::Change::kNew:
      kinds_stale_ = true;
      break;
    case CacheLayout::Change::kPart:
      metrics_.parts.Add(event.keys.size());
      return;
    case CacheLayout::Change::kAnother:
      metrics_.losses.Add();
      Drop(from);
      state.layout.Learn(event);
      break;
    case CacheLayout::Change::kTooMany:
      metrics_.unusable.Add();
      return;
  }
  if (!event.placed) {
    metrics_.unplaced.Add(event.keys.size());
    if (++state.unplaced == kUnplacedToGiveUp) kinds_stale_ = true;
    return;
  }
  if (!event.places.empty() && !Unreadable(state) && state.unplaced > 0) --state.unplaced;
  CompareSizes(from, state, event);
  const std::vector<BlockHash> names = NamesOf(from, *holder, event);
  if (names.empty()) {
    metrics_.orphans.Add(event.keys.size());
    if (event.tier != HolderTier::kDevice) return;
    // It holds a parent that was never told, or was told in a form that is of no use.
    state.unnamed.Add(event.keys);
    if (state.layout.NeedsAll(event.group)) state.unnamed.Add({&*event.parent, 1});
    // An index that was full forgot a chain's end, and the parent was only the last block of that.
    if (index_.evictions() != state.evictions) state.unnamed.AddUnknown();
    return JudgeTrust(from);
  }
  const size_t again = index_.Store(*holder, event.tier, event.parent, event.keys, names);
  if (event.tier != HolderTier::kDevice) return;
  state.witness.OnStored(names);
  state.removed.Erase(names);
  state.repeated.OnStored(event.keys);
  if (state.layout.NeedsAll(event.group)) state.repeated.Followed(event.keys.back());
  if (again > 0) state.repeated.Remember(event.parent, event.keys, names);
  // An index that is full may have taken in none, or only the first of them.
  size_t named = event.keys.size();
  while (named > 0 && !index_.HashOf(*holder, event.keys[named - 1])) --named;
  const std::span<const EngineKey> keys(event.keys);
  if (named < keys.size()) {
    state.unnamed.Add(keys.subspan(named));
    JudgeTrust(from);
  }
  Named(from, state, keys.first(named));
}

std::vector<BlockHash> EventFeed::NamesOf(const Source& source, HolderId holder,
                                          const KvStored& event) {
  // A slower tier's event may leave out the salt and the adapter, of which the engine's hash tells.
  const bool may_know = event.tier != HolderTier::kDevice && event.places.empty() &&
                        event.block_size == holders_.at(holder).layout.BlockSizeOf(event.group);
  const auto told_before = [&](size_t i) {
    return may_know ? index_.HashOf(holder, event.keys[i]) : std::nullopt;
  };
  auto extra = event.extras.begin();
  BlockHash parent;
  if (event.parent) {
    // An engine that stores a block on its device has what it continues there, but for windows.
    if (event.tier == HolderTier::kDevice && holders_.at(holder).layout.NeedsAll(event.group)) {
      TakeBackCopies(holder, *event.parent);
    }
    const std::optional<BlockHash> known = index_.HashOf(holder, *event.parent);
    if (!known && !told_before(0)) return {};
    if (known) parent = *known;
  } else {
    EventKeyIdentity identity{.model = source.replica.model,
                              .adapter = event.adapter,
                              .salt = event.salt,
                              .group = event.group,
                              .block_size = event.block_size};
    // A text that the first block depends on alone is a salt; were it an image, no prompt of text
    // would ask for it as a salt.
    if (extra != event.extras.end() && extra->block == 0 && extra->text) {
      identity.salt = *extra->text;
      ++extra;
    }
    parent.bytes = spaces_.Of(identity).id.bytes;
  }
  std::vector<BlockHash> names;
  names.reserve(event.keys.size());
  const std::span<const TokenId> tokens(event.tokens);
  for (size_t i = 0; names.size() < event.keys.size(); ++i) {
    std::vector<TokenExtra> extras;
    if (extra != event.extras.end() && extra->block == i) {
      extras.push_back({.kind = kEventExtra,
                        .offset = 0,
                        .digest = Bytes(extra->digest.begin(), extra->digest.end())});
      ++extra;
    }
    const std::optional<BlockHash> told = told_before(names.size());
    parent = told ? *told
                  : NextBlockHash(spaces_.seed(), parent.bytes,
                                  tokens.subspan(i * event.block_size, event.block_size), extras);
    if (event.places.empty() || event.places[names.size()] == i) names.push_back(parent);
  }
  return names;
}

void EventFeed::TakeBackCopies(HolderId holder, EngineKey key) {
  RepeatedBlocks& repeated = holders_.at(holder).repeated;
  if (!repeated.any_removed() || repeated.was_followed(key)) return;
  // Up the chain: by the keys of what the index has not, then by the names of what it has.
  std::vector<RepeatedBlocks::Block> there;
  std::optional<EngineKey> next = key;
  size_t steps = 0;
  while (next && !index_.HashOf(holder, *next) && there.size() < RepeatedBlocks::kMost) {
    const std::optional<RepeatedBlocks::Block> block = repeated.Removed(*next);
    if (!block) break;
    there.push_back(*block);
    next = block->parent;
  }
  if (next) {
    if (const auto block = repeated.Removed(*next)) there.push_back(*block);  // in slower tiers
    for (const BlockHash& name : index_.MissingBefore(holder, HolderTier::kDevice, *next, &steps)) {
      if (const auto block = repeated.Removed(name)) there.push_back(*block);
    }
  }
  further_work_ += there.size() + steps / kLooksPerBlock;
  for (size_t i = there.size(); i-- > 0;) {
    const RepeatedBlocks::Block& block = there[i];
    index_.Store(holder, HolderTier::kDevice, block.parent, {&block.key, 1}, {&block.name, 1});
    repeated.OnStored({&block.key, 1});
    holders_.at(holder).removed.Erase({&block.name, 1});
  }
}

void EventFeed::StoreNamed(HolderId holder, const KvStored& event) {
  for (const EngineKey& key : event.keys) {
    const std::optional<BlockHash> name = index_.HashOf(holder, key);
    if (!name) {
      metrics_.orphans.Add();
      continue;
    }
    index_.Store(holder, event.tier, std::nullopt, {&key, 1}, {&*name, 1});
  }
}

void EventFeed::OnRemoved(EventSourceId source, std::optional<uint32_t> rank,
                          const KvRemoved& event) {
  const std::optional<HolderId> holder = HolderOf(source, rank);
  if (!holder) return;
  metrics_.removed.Add();
  metrics_.blocks_removed.Add(event.keys.size());
  Holder& state = holders_.at(*holder);
  if (event.tier == HolderTier::kDevice && !trusted(*holder)) {
    for (const EngineKey key : event.keys) {
      if (const auto name = index_.HashOf(*holder, key)) state.removed.Add(*name);
    }
  }
  index_.Remove(*holder, event.tier, event.keys);
  if (event.tier != HolderTier::kDevice) return;
  state.witness.OnRemoved();
  state.repeated.OnRemoved(event.keys);
  Named(sources_.at(source), state, event.keys);
}

void EventFeed::OnCleared(EventSourceId source, std::optional<uint32_t> rank) {
  const std::optional<HolderId> holder = HolderOf(source, rank);
  if (!holder) return;
  metrics_.cleared.Add();
  Clear(*holder);
  // Empty is known exactly.
  Source& from = sources_.at(source);
  if (from.spoken_for.size() == 1) from.complete = true;
  JudgeTrust(from);
}

void EventFeed::OnLost(EventSourceId source, const Status& why) {
  const auto it = sources_.find(source);
  if (it == sources_.end()) return;
  if (MayWarn(it->second.warned_at)) {
    spdlog::warn("replica {}: events of rank {}: {}; what was known of its cache is dropped",
                 it->second.replica.id, it->second.rank, why.ToString());
  }
  Drop(it->second);
}

void EventFeed::OnConnection(EventSourceId source, bool connected) {
  const auto it = sources_.find(source);
  if (it != sources_.end()) it->second.connected = connected;
}

void EventFeed::OnTrusted(EventSourceId source) {
  const auto it = sources_.find(source);
  if (it == sources_.end()) return;
  it->second.complete = true;
  JudgeTrust(it->second);
}

size_t EventFeed::TakeFurtherWork() { return std::exchange(further_work_, 0); }

EventFeed::Promise EventFeed::MakePromise(HolderId holder, const TokenizedPrompt& prompt) {
  const auto it = holders_.find(holder);
  if (it == holders_.end() || !prompt.counted_alone()) return {};
  uint64_t tokens = 0;
  for (const GroupMatch& match : Match(prompt, Holders().set(holder))) {
    if (match.holder == holder) tokens = match.device_tokens;
  }
  if (tokens == 0) return {};
  const BlockChain& chain = *ChainsOf(holder, prompt).front();
  const uint64_t blocks = tokens / it->second.layout.groups.begin()->second.block_size;
  if (blocks == 0 || blocks > chain.size()) return {};
  return {holder, it->second.witness.Make(tokens, prompt.token_count > tokens, chain.front(),
                                          chain[blocks - 1])};
}

void EventFeed::OnCachedTokens(const Promise& promise, uint64_t actual) {
  const auto it = holders_.find(promise.holder);
  if (it == holders_.end()) return;
  uint32_t block_size = 0;
  for (const auto& [number, group] : it->second.layout.groups) {
    block_size = std::max(block_size, group.block_size);
  }
  const auto verdict = it->second.witness.OnReply(promise.made, actual, block_size);
  if (verdict == ReplyWitness::Verdict::kNone) return;
  metrics_.contradictions.Add();
  if (verdict != ReplyWitness::Verdict::kEmptied) return;
  Source& source = sources_.at(it->second.source);
  spdlog::warn("replica {}: replies, one after the other, had far less cached than its events said",
               source.replica.id);
  metrics_.losses.Add();
  Clear(promise.holder);
  source.complete = false;
  JudgeTrust(source);
}

std::optional<HolderId> EventFeed::HolderOf(EventSourceId source, std::optional<uint32_t> rank) {
  const auto it = sources_.find(source);
  if (it == sources_.end()) return std::nullopt;
  const EventReplica& replica = it->second.replica;
  const uint32_t number = replica.has_ranks ? rank.value_or(it->second.rank) : it->second.rank;
  if (number < replica.first_rank || number - replica.first_rank >= replica.holders.size()) {
    metrics_.unknown_ranks.Add();
    return std::nullopt;
  }
  const HolderId holder = replica.holders[number - replica.first_rank];
  it->second.spoken_for.insert(holder);
  const auto [state, added] = holders_.try_emplace(holder);
  if (added) state->second.evictions = index_.evictions();
  state->second.source = source;
  return holder;
}

void EventFeed::Clear(HolderId holder) {
  Holder& state = holders_.at(holder);
  state.witness.Reset();
  state.repeated.Clear();
  state.unnamed.Clear();
  state.evictions = index_.evictions();
  state.removed.Clear();
  // What is told from now on is judged by itself.
  if (Unreadable(state)) kinds_stale_ = true;
  state.unplaced = 0;
  index_.ClearHolder(holder);
}

void EventFeed::Named(Source& source, Holder& holder, std::span<const EngineKey> keys) {
  if (holder.unnamed.empty()) return;
  holder.unnamed.Erase(keys);
  if (holder.unnamed.empty()) JudgeTrust(source);
}

void EventFeed::JudgeTrust(Source& source) {
  const bool trusted =
      source.complete && std::ranges::all_of(source.spoken_for, [&](HolderId holder) {
        return holders_.at(holder).unnamed.empty();
      });
  if (source.trusted == trusted) return;
  source.trusted = trusted;
  metrics_.untrusted.Add(trusted ? -1 : 1);
}

bool EventFeed::Unreadable(const Holder& state) { return state.unplaced >= kUnplacedToGiveUp; }

void EventFeed::CompareSizes(Source& source, Holder& state, const KvStored& event) {
  const uint32_t before = state.lost_layout.BlockSizeOf(event.group);
  // A single block may be a part of one.
  if (before == 0 || event.tier != HolderTier::kDevice || event.keys.size() < 2) return;
  state.lost_layout = {};
  if (event.block_size == before) return;
  metrics_.block_size_changes.Add();
  if (!MayWarn(source.size_warned_at)) return;
  spdlog::warn("replica {}: its blocks have {} tokens now, not {}: it was configured anew",
               source.replica.id, event.block_size, before);
}

void EventFeed::Drop(Source& source) {
  further_work_ += source.spoken_for.size() * kEmptyingWork;
  for (const HolderId holder : source.spoken_for) {
    Clear(holder);
    // What comes next may be another process's, of another configuration.
    Holder& state = holders_.at(holder);
    if (!state.layout.groups.empty()) state.lost_layout = std::exchange(state.layout, {});
  }
  kinds_stale_ = true;
  source.complete = false;
  JudgeTrust(source);
}

}  // namespace ember::router
