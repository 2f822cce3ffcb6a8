// EventFeed: what engines say about their caches, written into the PrefixIndex, and the question
// how much of a prompt they hold. It knows which data-parallel ranks a replica has, and when to
// stop believing it.
//
// Concurrency: one thread (the router's loop). The index and the metrics must outlive it.
#pragma once

#include <bitset>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "proto/base/time.h"
#include "router/events/cache_layout.h"
#include "router/events/event_key_spaces.h"
#include "router/events/event_listener.h"
#include "router/events/event_metrics.h"
#include "router/events/removed_blocks.h"
#include "router/events/repeated_blocks.h"
#include "router/events/reply_witness.h"
#include "router/events/unnamed_blocks.h"
#include "router/index/prefix_index.h"
#include "router/tokenize/tokenized_prompt.h"

namespace ember::router {

// The replica that a source is of.
struct EventReplica {
  std::string id;  // for the log
  // The base model's name as it was declared: replicas that share it are looked up at once.
  std::string model;
  // Whether it is one of several ranks that the events speak of; else whatever they say is its own.
  bool has_ranks = false;
  uint32_t first_rank = 0;
  std::vector<HolderId> holders;  // one a rank, from first_rank on
};

class EventFeed final : public EventListener {
 public:
  EventFeed(PrefixIndex& index, RandomSource& random, EventMetrics& metrics)
      : index_(index), metrics_(metrics), spaces_(random) {}

  // `rank`: whose endpoint it is; one of the replica's. To be called before the source's first
  // event. A removed source is not heard any more; its holders stay as they are.
  void AddSource(EventSourceId source, EventReplica replica, uint32_t rank);
  void RemoveSource(EventSourceId source);

  void OnStored(EventSourceId source, std::optional<uint32_t> rank, const KvStored& event) override;
  void OnRemoved(EventSourceId source, std::optional<uint32_t> rank,
                 const KvRemoved& event) override;
  void OnCleared(EventSourceId source, std::optional<uint32_t> rank) override;
  void OnLost(EventSourceId source, const Status& why) override;
  void OnConnection(EventSourceId source, bool connected) override;
  void OnTrusted(EventSourceId source) override;
  size_t TakeFurtherWork() override;

  // What was promised to a request that is sent now: that the holder's device has so many of its
  // tokens.
  struct Promise {
    HolderId holder = kNoHolder;
    ReplyWitness::Promise made{};
  };
  Promise MakePromise(HolderId holder, const TokenizedPrompt& prompt);
  // The reply tells how many tokens were in the cache. Enough replies in a row that had far less
  // than promised, each to a request that was sent after the reply before: the holder was emptied
  // without a word, and loses everything.
  void OnCachedTokens(const Promise& promise, uint64_t actual);

  using Holders = std::bitset<kMaxHolders>;
  // How many of the prompt's tokens each holder has, unbroken from the start and in every cache
  // group that its model needs. Only holders with some. By the prompt's adapter and salt. `among`:
  // those that serve its model; of others some may be found, too.
  std::vector<GroupMatch> Match(const TokenizedPrompt& prompt, const Holders& among);

  // What is presumed of a holder that is not trusted, beside what it said: of the prompt's first
  // `tokens` those before the first block of which it said that it is gone.
  uint64_t LeftOf(HolderId holder, const TokenizedPrompt& prompt, uint64_t tokens);
  // Such a holder is sent the prompt, so it will have it, whatever of it it had removed: that is
  // returned, for OnRefused.
  std::vector<BlockHash> OnSent(HolderId holder, const TokenizedPrompt& prompt);
  // It computed none of it.
  void OnRefused(HolderId holder, std::span<const BlockHash> removed);

  // The prompt's blocks as the holder's device names them, a chain for each cache group; empty when
  // the holder has told of none yet, or the prompt has no tokens.
  std::vector<const BlockChain*> ChainsOf(HolderId holder, const TokenizedPrompt& prompt);

  // Whether other prompts are known to go on in their own ways after the first `tokens` of this
  // one, which the holder has.
  bool Branches(HolderId holder, const TokenizedPrompt& prompt, uint64_t tokens);

  // What the holder's events are, for people: "none" (it has no source), "unreachable", "silent"
  // (connected, and has told nothing yet), "partial" (true, but not all that it holds) or "whole".
  std::string_view StateOf(HolderId holder) const;

  // Whether what the holder's source said, at least one block, is known to be all that it holds.
  bool trusted(HolderId holder) const;
  // How many tokens one of the holder's blocks in the index stands for, all cache groups taken
  // together; 0: it has told of none yet.
  double TokensPerBlock(HolderId holder) const;

 private:
  struct Source {
    EventReplica replica;
    uint32_t rank = 0;
    bool complete = false;  // nothing was missed that it told
    bool trusted = false;   // complete, and all blocks of its holders have names
    bool connected = false;
    std::set<HolderId> spoken_for;
    std::optional<TimePoint> warned_at;
    std::optional<TimePoint> size_warned_at;
  };
  struct Holder {
    EventSourceId source = 0;
    CacheLayout layout;
    uint32_t unplaced = 0;    // events, less those of their groups that had a place
    CacheLayout lost_layout;  // before the last loss, until it was compared with what came after
    ReplyWitness witness;
    RepeatedBlocks repeated;  // on the device, as all that follows
    UnnamedBlocks unnamed;
    uint64_t evictions = 0;  // of the index, when it had forgotten nothing of the holder yet
    RemovedBlocks removed;   // while it is not trusted
  };
  // Holders of one model and layout, which are looked up together.
  struct Kind {
    std::string model;
    CacheLayout layout;
    Holders holders;
  };

  // Nothing: the source is gone, or has no such rank.
  std::optional<HolderId> HolderOf(EventSourceId source, std::optional<uint32_t> rank);
  void Clear(HolderId holder);
  void JudgeTrust(Source& source);
  // These blocks of the holder's device have names now, or are gone.
  void Named(Source& source, Holder& holder, std::span<const EngineKey> keys);
  // Whether what the holder tells is of a form that leaves its matches to chance.
  static bool Unreadable(const Holder& state);
  // Says so, if the holder's blocks have another size than before its last loss.
  void CompareSizes(Source& source, Holder& state, const KvStored& event);
  void Drop(Source& source);
  std::vector<BlockHash> NamesOf(const Source& source, HolderId holder, const KvStored& event);
  // The holder's device turned out to have that block and all before it: what was removed of them
  // had copies.
  void TakeBackCopies(HolderId holder, EngineKey key);
  // Blocks that were told before, in another tier, with their tokens.
  void StoreNamed(HolderId holder, const KvStored& event);
  // Of what the prompt asks for among replicas of that base model; empty: it is the model itself.
  std::string AdapterOf(const std::string& model, const TokenizedPrompt& prompt) const;
  const BlockChain& ChainIn(const std::string& model, const TokenizedPrompt& prompt, uint32_t group,
                            uint32_t block_size);
  void SortIntoKinds();
  void LookUp(const Kind& kind, const std::vector<GroupChain>& groups,
              std::vector<GroupMatch>* found) const;

  PrefixIndex& index_;
  EventMetrics& metrics_;
  EventKeySpaces spaces_;
  std::map<EventSourceId, Source> sources_;
  std::map<HolderId, Holder> holders_;
  // That events told of, by the base model of who told; bounded.
  std::set<std::pair<std::string, std::string>> adapters_;
  std::vector<Kind> kinds_;
  bool kinds_stale_ = false;
  size_t further_work_ = 0;
};

}  // namespace ember::router
