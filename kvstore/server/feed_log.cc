#include "kvstore/server/feed_log.h"

#include <bit>
#include <cstdlib>

namespace ember::kv {

// Zeroed lazily by the system: an idle node doesn't pay for the ring.
FeedLog::FeedLog(uint64_t id, Counter* events, size_t capacity)
    : id_(id),
      capacity_(capacity),
      events_(events),
      slots_(static_cast<uint64_t*>(std::calloc(capacity * kSlotWords, sizeof(uint64_t)))) {
  EMBER_CHECK(std::has_single_bit(capacity), "the ring's size is a power of two");
  EMBER_CHECK(slots_ != nullptr, "no memory for the feed");
}

FeedLog::~FeedLog() = default;

// Word 0: kind, tier, reason, scope's kind. Then key and generation, or the scope and the epoch.
FeedLog::Words FeedLog::Pack(const FeedEvent& event) {
  Words words{};
  words[0] = static_cast<uint64_t>(event.kind) | static_cast<uint64_t>(event.tier) << 8 |
             static_cast<uint64_t>(event.reason) << 16 |
             static_cast<uint64_t>(event.scope.kind) << 24;
  if (event.kind == FeedEvent::Kind::kPurged) {
    std::memcpy(&words[1], event.scope.ns.bytes.data(), 16);
    words[3] = event.scope.tenant_hash;
    words[4] = event.epoch;
  } else {
    std::memcpy(&words[1], event.key.ns.bytes.data(), 16);
    std::memcpy(&words[3], event.key.hash.bytes.data(), 16);
    words[5] = event.generation.high;
    words[6] = event.generation.low;
  }
  return words;
}

FeedEvent FeedLog::Unpack(const Words& words) {
  FeedEvent event;
  event.kind = static_cast<FeedEvent::Kind>(words[0] & 0xff);
  event.tier = static_cast<Tier>(words[0] >> 8 & 0xff);
  event.reason = static_cast<MissReason>(words[0] >> 16 & 0xff);
  event.scope.kind = static_cast<PurgeScope::Kind>(words[0] >> 24 & 0xff);
  if (event.kind == FeedEvent::Kind::kPurged) {
    std::memcpy(event.scope.ns.bytes.data(), &words[1], 16);
    event.scope.tenant_hash = words[3];
    event.epoch = words[4];
  } else {
    std::memcpy(event.key.ns.bytes.data(), &words[1], 16);
    std::memcpy(event.key.hash.bytes.data(), &words[3], 16);
    event.generation = {words[5], words[6]};
  }
  return event;
}

// The words are stored with release and loaded with acquire: whoever sees a new word also sees that
// the slot's old number is gone.
void FeedLog::Append(const FeedEvent& event) {
  const uint64_t number = newest_.load(std::memory_order_relaxed) + 1;
  const Words words = Pack(event);
  uint64_t* slot = SlotOf(number);
  std::atomic_ref(slot[0]).store(0, std::memory_order_relaxed);
  for (size_t i = 0; i < kEventWords; ++i) {
    std::atomic_ref(slot[1 + i]).store(words[i], std::memory_order_release);
  }
  std::atomic_ref(slot[0]).store(number, std::memory_order_release);
  newest_.store(number, std::memory_order_release);
  events_->Add();
}

std::optional<FeedEvent> FeedLog::ReadOne(uint64_t number) const {
  uint64_t* slot = SlotOf(number);
  if (std::atomic_ref(slot[0]).load(std::memory_order_acquire) != number) return std::nullopt;
  Words words;
  for (size_t i = 0; i < kEventWords; ++i) {
    words[i] = std::atomic_ref(slot[1 + i]).load(std::memory_order_acquire);
  }
  if (std::atomic_ref(slot[0]).load(std::memory_order_relaxed) != number) return std::nullopt;
  return Unpack(words);
}

bool FeedLog::Read(uint64_t after, size_t limit, std::vector<FeedEvent>* out) const {
  const uint64_t newest = this->newest();
  if (after > newest) return false;
  for (uint64_t number = after + 1; number <= newest && limit > 0; ++number, --limit) {
    std::optional<FeedEvent> event = ReadOne(number);
    if (!event) return false;
    out->push_back(*event);
  }
  return true;
}

void FeedLog::Stored(const BlockKey& key, Tier tier, const GenerationId& generation) {
  FeedEvent event;
  event.kind = FeedEvent::Kind::kStored;
  event.tier = tier;
  event.key = key;
  event.generation = generation;
  Append(event);
}

void FeedLog::Removed(const BlockKey& key, Tier tier, const GenerationId& generation,
                      MissReason reason) {
  FeedEvent event;
  event.kind = FeedEvent::Kind::kRemoved;
  event.tier = tier;
  event.reason = reason;
  event.key = key;
  event.generation = generation;
  Append(event);
}

void FeedLog::Purged(const PurgeScope& scope, uint64_t epoch) {
  FeedEvent event;
  event.kind = FeedEvent::Kind::kPurged;
  event.scope = scope;
  event.epoch = epoch;
  Append(event);
}

}  // namespace ember::kv
