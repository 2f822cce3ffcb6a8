// HolderLives: the life that each holder is in. A life is what sets of holders name: it begins with
// AddHolder or ClearHolder and ends with ClearHolder or RemoveHolder, and with it, in one step,
// everything that is known of it. Its number is given to another only after a sweep over all blocks
// has taken it out of their sets and no reader can see one that has it.
//
// Concurrency: Of from any thread inside a stay of ReaderEpochs; the rest from the writer.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "router/index/holder.h"
#include "router/index/holder_sets.h"
#include "router/index/reader_epochs.h"

namespace ember::router {

class HolderLives {
 public:
  struct Living {
    bool alive = false;
    HolderKind kind = HolderKind::kReplica;
    HolderId holder = kNoHolder;
  };

  // kNoLife when all numbers are taken by lives whose end has not been swept up yet.
  static constexpr LifeId kNoLife = 0xffff;
  LifeId Begin(HolderId holder, HolderKind kind);
  // Over for every lookup that begins after this call.
  void End(LifeId life);

  Living Of(LifeId life) const {
    const uint32_t bits = lives_[life].living.load(std::memory_order_acquire);
    return {(bits & kAliveBit) != 0, static_cast<HolderKind>(bits >> 16 & 0xff),
            static_cast<HolderId>(bits & 0xffff)};
  }

  // One of its blocks goes over from these tiers (0: it had it not) to those.
  void Count(LifeId life, TierBits before, TierBits after) {
    HeldCount& count = lives_[life].count;
    const auto step = [&](TierBits mask) {
      return uint32_t{(after & mask) != 0} - uint32_t{(before & mask) != 0};
    };
    count.any += step(kAllTiers);
    count.device += step(kDeviceTiers);
    count.host += step(BitOf(HolderTier::kHost));
    count.disk += step(BitOf(HolderTier::kDisk));
  }
  const HeldCount& count(LifeId life) const { return lives_[life].count; }

  // Between the begin and the end of a sweep every block and name is rid of the lives for which
  // Sweeping is true. Lives that end meanwhile are for the next one.
  bool has_dead() const { return dead_ > 0; }
  void BeginSweep();
  bool Sweeping(LifeId life) const { return lives_[life].state == State::kSweeping; }
  void EndSweep(ReaderEpochs& epochs);
  // Numbers that no reader can see any more are free again.
  void Reclaim(const ReaderEpochs& epochs);

 private:
  static constexpr uint32_t kAliveBit = 1u << 31;
  enum class State : uint8_t { kFree, kAlive, kDead, kSweeping, kSwept };
  struct Life {
    std::atomic<uint32_t> living{0};  // 0: not alive
    HeldCount count;
    State state = State::kFree;
  };

  std::array<Life, kMaxLives> lives_;
  LifeId next_ = 0;  // where the search for a free one goes on
  size_t dead_ = 0;
  size_t swept_ = 0;
  ReaderEpochs::Ticket ticket_ = 0;  // of the last sweep's end
};

}  // namespace ember::router
