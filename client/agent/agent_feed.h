// AgentFeed: what the replica holds and how it does, for those who watch (routers). It keeps the
// current state and gives each watcher a snapshot and then every change, numbered without gaps.
//
// It speaks plain types; the gRPC service turns them into messages.
// Concurrency: any thread (one mutex). A watcher's buffer is bounded: one that falls behind is cut
// off and must watch again. Life: must outlive its watchers.
#pragma once

#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "proto/base/status.h"
#include "proto/base/time.h"
#include "proto/model/block_hash.h"
#include "proto/model/key_space.h"
#include "proto/model/routing.h"

namespace ember::agent {

struct FeedReport {
  bool healthy = false;
  ReplicaLoad load;
  PrefillModel prefill;
  double load_tokens_per_ms = 0;
  uint64_t cached_tokens_total = 0;
  uint64_t computed_tokens_total = 0;
};

// A slot's content: the hashes of its whole blocks, from the chain's start.
struct FeedHeld {
  uint32_t slot = 0;
  std::vector<BlockHash> blocks;
};

struct FeedSnapshot {
  std::optional<KeySpace> space;
  std::string model;
  std::vector<FeedHeld> held;
  FeedReport report;
};

struct FeedEvent {
  uint64_t sequence = 0;
  std::variant<FeedSnapshot, FeedHeld, FeedReport> what;
};

class AgentFeed {
 public:
  static constexpr size_t kMaxWatchers = 64;
  static constexpr size_t kMaxBuffered = 1024;  // events of one watcher

  AgentFeed();

  void SetHeld(uint32_t slot, std::vector<BlockHash> blocks);
  void SetReport(const FeedReport& report);
  // Another identity: every held block is gone, and watchers get a new snapshot.
  void SetIdentity(std::optional<KeySpace> space, std::string model);

  FeedSnapshot Now() const;
  // Blocks of the chain held from its start, in the best slot.
  size_t LongestPrefix(std::span<const BlockHash> chain) const;
  uint64_t incarnation() const { return incarnation_; }

  class Watcher {
   public:
    ~Watcher();
    // The next event; nothing when `wait` passes without one. kUnavailable: cut off, or closed.
    Result<std::optional<FeedEvent>> Next(Duration wait);

   private:
    friend class AgentFeed;
    explicit Watcher(AgentFeed& feed) : feed_(feed) {}
    AgentFeed& feed_;
    std::deque<FeedEvent> events_;
    bool cut_off_ = false;
  };
  // Starts with a snapshot. kBusy: too many watchers.
  Result<std::unique_ptr<Watcher>> Watch();
  // Ends all watchers.
  void Close();

 private:
  void Publish(std::variant<FeedSnapshot, FeedHeld, FeedReport> what);

  const uint64_t incarnation_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t sequence_ = 0;
  bool closed_ = false;
  FeedSnapshot state_;
  std::list<Watcher*> watchers_;
};

}  // namespace ember::agent
