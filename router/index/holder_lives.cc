#include "router/index/holder_lives.h"

namespace ember::router {

LifeId HolderLives::Begin(HolderId holder, HolderKind kind) {
  for (size_t i = 0; i < kMaxLives; ++i) {
    const LifeId life = next_;
    next_ = static_cast<LifeId>((next_ + 1) % kMaxLives);
    if (lives_[life].state != State::kFree) continue;
    lives_[life].state = State::kAlive;
    lives_[life].count = {};
    lives_[life].living.store(kAliveBit | static_cast<uint32_t>(kind) << 16 | holder,
                              std::memory_order_release);
    return life;
  }
  return kNoLife;
}

void HolderLives::End(LifeId life) {
  lives_[life].living.store(0, std::memory_order_release);
  lives_[life].state = State::kDead;
  ++dead_;
}

void HolderLives::BeginSweep() {
  for (Life& life : lives_) {
    if (life.state == State::kDead) life.state = State::kSweeping;
  }
  dead_ = 0;
}

void HolderLives::EndSweep(ReaderEpochs& epochs) {
  for (Life& life : lives_) {
    if (life.state != State::kSweeping) continue;
    life.state = State::kSwept;
    ++swept_;
  }
  ticket_ = epochs.Retire();
}

void HolderLives::Reclaim(const ReaderEpochs& epochs) {
  if (swept_ == 0 || !epochs.Passed(ticket_)) return;
  for (Life& life : lives_) {
    if (life.state == State::kSwept) life.state = State::kFree;
  }
  swept_ = 0;
}

}  // namespace ember::router
