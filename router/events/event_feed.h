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

#include "router/events/cache_layout.h"
#include "router/events/event_key_spaces.h"
#include "router/events/event_listener.h"
#include "router/events/event_metrics.h"
#include "router/index/prefix_index.h"
#include "router/tokenize/tokenized_prompt.h"

namespace ember::router {

// The replica that a source is of.
struct EventReplica {
  std::string id;     // for the log
  std::string model;  // the base model's name; equal for replicas that serve the same
  uint32_t first_rank = 0;
  std::vector<HolderId> holders;  // one a rank, from first_rank on
};

class EventFeed final : public EventListener {
 public:
  EventFeed(PrefixIndex& index, RandomSource& random, EventMetrics& metrics)
      : index_(index), metrics_(metrics), spaces_(random) {}

  // `rank`: whose endpoint it is; one of the replica's. To be called before the source's first
  // event. A removed source is not heard any more; its holders are cleared.
  void AddSource(EventSourceId source, EventReplica replica, uint32_t rank);
  void RemoveSource(EventSourceId source);

  void OnStored(EventSourceId source, std::optional<uint32_t> rank, const KvStored& event) override;
  void OnRemoved(EventSourceId source, std::optional<uint32_t> rank,
                 const KvRemoved& event) override;
  void OnCleared(EventSourceId source, std::optional<uint32_t> rank) override;
  void OnLost(EventSourceId source, const Status& why) override;
  void OnTrusted(EventSourceId source) override;

  // A reply tells how many tokens its prompt had in the cache. `predicted`: tokens that Match gave
  // for the holder when the request was sent. Enough replies in a row that had far less: the holder
  // was emptied without a word, and loses everything.
  void OnCachedTokens(HolderId holder, uint64_t predicted, uint64_t actual);

  // How many of the prompt's tokens each holder has, unbroken from the start and in every cache
  // group that its model needs. Only holders with some. By the prompt's adapter and salt; holders
  // of other models than the prompt's may be among them.
  std::vector<GroupMatch> Match(const TokenizedPrompt& prompt);

  // Whether what the holder's source said is known to be all that it holds.
  bool trusted(HolderId holder) const;

 private:
  struct Source {
    EventReplica replica;
    uint32_t rank = 0;
    bool trusted = false;
    std::set<HolderId> spoken_for;
  };
  struct Holder {
    EventSourceId source = 0;
    CacheLayout layout;
    uint32_t contradictions = 0;  // in a row
  };
  // Holders of one model and layout, which are looked up together.
  struct Kind {
    std::string model;
    CacheLayout layout;
    std::bitset<kMaxHolders> holders;
  };

  // Nothing: the source is gone, or has no such rank.
  std::optional<HolderId> HolderOf(EventSourceId source, std::optional<uint32_t> rank);
  void Clear(HolderId holder);
  void SetTrusted(Source& source, bool trusted);
  void Drop(Source& source);
  std::vector<BlockHash> NamesOf(const Source& source, HolderId holder, const KvStored& event);
  // Blocks that were told before, in another tier, with their tokens.
  void StoreNamed(HolderId holder, const KvStored& event);
  void SortIntoKinds();
  void LookUp(const Kind& kind, const std::vector<GroupChain>& groups,
              std::vector<GroupMatch>* found) const;

  PrefixIndex& index_;
  EventMetrics& metrics_;
  EventKeySpaces spaces_;
  std::map<EventSourceId, Source> sources_;
  std::map<HolderId, Holder> holders_;
  std::vector<Kind> kinds_;
  bool kinds_stale_ = false;
};

}  // namespace ember::router
