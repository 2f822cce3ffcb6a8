// PrefixLoader: what the store has of a prompt, and bringing it into a slot file that the engine
// can restore.
//
// Concurrency: Match and Load are coroutines of the HTTP loop; the blocking work runs on a few
// threads of its own. Life: everything given to it must outlive it; Stop() before the HTTP loop is
// destroyed, so that no thread works for a coroutine that is gone.
//
// A store that does not answer in time is left alone for a while: a frozen node costs one deadline,
// not one a request. What the PrefetchCache has of a load is taken from there; a transfer of it
// that is under way is waited for. So Load may only be asked for what was matched just before.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/agent/agent_metrics.h"
#include "client/agent/identity.h"
#include "client/agent/load_priority.h"
#include "client/agent/prefetch_cache.h"
#include "client/agent/slot_folder.h"
#include "client/store_client/store_client.h"

namespace ember::agent {

// A prompt's whole segments. Owned by whoever asks; must stay valid while it is asked for.
struct PromptSegments {
  std::vector<TokenId> tokens;   // of the prompt
  std::vector<SegmentRef> refs;  // the i-th covers tokens [64i, 64(i+1))
};

std::shared_ptr<PromptSegments> SegmentsOf(const EngineIdentity& identity,
                                           std::vector<TokenId> prompt);

struct StoreMatch {
  size_t segments = 0;             // usable, from the start
  std::optional<MissReason> miss;  // of the first that is not
  double match_ms = 0;
};

struct LoadedPrefix {
  Status status;           // not ok: nothing can be restored
  size_t segments = 0;     // in the slot file
  uint64_t bytes = 0;      // received by the load itself
  double transfer_ms = 0;  // with waited_ms
  double rebuild_ms = 0;
  size_t prefetched = 0;  // of `segments`, received ahead
  double lead_ms = -1;    // the last of those was there that long before the load began
  double waited_ms = 0;   // for transfers that were under way
  double spared_ms = 0;   // what receiving the prefetched ones had taken
};

class PrefixLoader {
 public:
  // `store` may be null: then nothing ever matches.
  PrefixLoader(StoreClient* store, const SlotFolder& folder, PrefetchCache& prefetched,
               AgentMetrics& metrics);
  ~PrefixLoader() { Stop(); }

  bool enabled() const { return store_ != nullptr; }
  // The store is left alone now.
  bool paused() const;
  // How much of the first `limit` segments the store has. Never fails: what is not known is a miss.
  boost::asio::awaitable<StoreMatch> Match(const EngineIdentity& identity,
                                           const PromptSegments& prompt, size_t limit);
  // Brings up to `count` segments into the restore file of `slot`; fewer when some did not arrive.
  boost::asio::awaitable<LoadedPrefix> Load(const EngineIdentity& identity,
                                            const PromptSegments& prompt, size_t count,
                                            uint32_t slot, Duration timeout);
  // Receives the segments of those numbers, ascending, each into its buffer. How many arrived and
  // were verified, from the start; the other buffers may hold anything.
  boost::asio::awaitable<size_t> Receive(const EngineIdentity& identity,
                                         const PromptSegments& prompt,
                                         std::span<const size_t> numbers,
                                         std::span<const MutableByteSpan> buffers,
                                         Duration timeout);
  // How many of the first segments a Load would not have to transfer.
  size_t ReadyPrefix(const PromptSegments& prompt, size_t segments) const {
    return prefetched_.ReadyPrefix(std::span(prompt.refs).first(segments));
  }
  LoadPriority& priority() { return priority_; }
  void Stop();

 private:
  using Buffer = std::unique_ptr<std::byte[]>;
  // What a load has in hand: where each segment's payload is or will be, and which are to come.
  struct Parts {
    std::vector<ByteSpan> payloads;
    std::vector<size_t> missing;
    std::vector<MutableByteSpan> buffers;  // of the missing ones
  };
  // These block; on a worker thread.
  GetResult GetNow(const EngineIdentity& identity, const PromptSegments& prompt,
                   std::span<const size_t> numbers, std::span<const MutableByteSpan> buffers,
                   Duration timeout);
  LoadedPrefix LoadNow(const EngineIdentity& identity, const PromptSegments& prompt,
                       const Parts& parts, uint32_t slot, Duration timeout);
  Status WriteAndCheck(const EngineIdentity& identity, std::span<const TokenId> tokens,
                       std::span<const ByteSpan> payloads, uint32_t slot);
  Status Check(const EngineIdentity& identity, std::span<const TokenId> tokens,
               uint32_t slot) const;
  std::vector<Buffer> TakeBuffers(size_t count, size_t bytes);
  void GiveBuffers(std::vector<Buffer> buffers, size_t bytes);
  void NoteAnswer(bool timed_out);
  // Counts what a load took from the segments received ahead.
  void NotePrefetched(std::span<const PrefetchCache::Segment> ahead, const Parts& parts,
                      TimePoint start, LoadedPrefix* loaded);

  StoreClient* const store_;
  const SlotFolder& folder_;
  PrefetchCache& prefetched_;
  AgentMetrics& metrics_;
  LoadPriority priority_;
  TimePoint paused_until_;
  size_t buffer_bytes_ = 0;
  std::vector<Buffer> spare_;  // of buffer_bytes_ each
  boost::asio::thread_pool workers_;
};

}  // namespace ember::agent
