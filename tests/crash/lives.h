// Lives: the successive processes of one node, as those who load it need to know them: which one
// answers now, whether it was left in peace during a call, and how the earlier ones ended.
//
// The controller tells; any thread asks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "proto/base/check.h"

namespace ember::testing {

// One moment. Two equal ones mean that no signal was sent between them.
struct Moment {
  uint32_t life = 0;  // counts the processes, from 1
  uint32_t signals = 0;
  bool up = false;  // it has said that it is ready, and no signal was sent to it
  bool operator==(const Moment&) const = default;
};

class Lives {
 public:
  enum class End : uint8_t { kNone, kKilled, kOrderly };
  static constexpr size_t kMax = 512;

  void Spawned() {
    Moment now = Now();
    EMBER_CHECK(now.life + 1 < kMax, "a bounded number of lives");
    ++now.life;
    now.up = false;
    Set(now);
  }
  void Ready() {
    Moment now = Now();
    now.up = true;
    Set(now);
  }
  // Called before it is sent.
  void Signalled() {
    Moment now = Now();
    ++now.signals;
    now.up = false;
    Set(now);
  }
  void Ended(End how) { ends_[Now().life] = how; }

  Moment Now() const {
    const uint64_t packed = now_;
    return {static_cast<uint32_t>(packed >> 32), static_cast<uint32_t>(packed >> 1 & 0x7fffffff),
            (packed & 1) != 0};
  }
  End EndOf(uint32_t life) const { return ends_[life]; }

 private:
  void Set(const Moment& now) {
    now_ = uint64_t{now.life} << 32 | uint64_t{now.signals} << 1 | (now.up ? 1 : 0);
  }

  std::atomic<uint64_t> now_{0};
  std::array<std::atomic<End>, kMax> ends_{};
};

}  // namespace ember::testing
