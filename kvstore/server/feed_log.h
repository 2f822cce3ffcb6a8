// FeedLog: what comes and goes in one shard, numbered, in a ring of fixed size, for readers on
// other threads.
//
// The writer never waits, locks, wakes anybody or allocates: an event costs a dozen stores, whoever
// reads or does not. Readers poll; one that is overtaken is told so and takes a snapshot instead.
// Operation: each slot is a sequence lock. The writer clears its number, stores the event's words,
// and sets the number; a reader believes the words only if the number was right before and after.
// Concurrency: the observer's calls on the shard's thread; the rest from any thread.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "kvstore/engine/engine_observer.h"
#include "proto/base/metrics.h"
#include "proto/base/random.h"

namespace ember::kv {

struct FeedEvent {
  enum class Kind : uint8_t { kStored = 1, kRemoved = 2, kPurged = 3 };

  Kind kind = Kind::kStored;
  Tier tier = Tier::kMemory;                    // stored, removed
  MissReason reason = MissReason::kNone;        // removed
  BlockKey key;                                 // stored, removed
  GenerationId generation;                      // stored, removed
  PurgeScope scope = PurgeScope::Everything();  // purged
  uint64_t epoch = 0;                           // purged
  bool operator==(const FeedEvent&) const = default;
};

class FeedLog final : public EngineObserver {
 public:
  static constexpr size_t kDefaultCapacity = 1 << 16;  // events; 64 bytes each, touched when used

  // `capacity`: a power of two. `events` counts what was numbered; it outlives the log.
  FeedLog(uint64_t id, Counter* events, size_t capacity = kDefaultCapacity);
  ~FeedLog() override;

  // Random for each log: positions in one mean nothing in another.
  uint64_t id() const { return id_; }
  size_t capacity() const { return capacity_; }
  // Of the newest event; the first has 1.
  uint64_t newest() const { return newest_.load(std::memory_order_acquire); }
  // Appends to `*out` the events after number `after`, at most `limit`. False when the next one has
  // left the ring, or was never in it: the reader needs a snapshot.
  bool Read(uint64_t after, size_t limit, std::vector<FeedEvent>* out) const;

  void Stored(const BlockKey& key, Tier tier, const GenerationId& generation) override;
  void Removed(const BlockKey& key, Tier tier, const GenerationId& generation,
               MissReason reason) override;
  void Purged(const PurgeScope& scope, uint64_t epoch) override;

 private:
  // The slot's number, and the event as eight-byte words: a cache line together.
  static constexpr size_t kEventWords = 7;
  static constexpr size_t kSlotWords = 1 + kEventWords;
  using Words = std::array<uint64_t, kEventWords>;

  static Words Pack(const FeedEvent& event);
  static FeedEvent Unpack(const Words& words);
  void Append(const FeedEvent& event);
  std::optional<FeedEvent> ReadOne(uint64_t number) const;
  uint64_t* SlotOf(uint64_t number) const {
    return slots_.get() + (number & (capacity_ - 1)) * kSlotWords;
  }

  struct Freer {
    void operator()(uint64_t* words) const { std::free(words); }
  };

  const uint64_t id_;
  const size_t capacity_;
  Counter* const events_;
  const std::unique_ptr<uint64_t[], Freer> slots_;
  std::atomic<uint64_t> newest_{0};
};

}  // namespace ember::kv
