// BurstPacer: when a relay reads a stream's next event, so that events which come faster than
// anybody reads are passed on several at a time: each alone costs four system calls. An event that
// the relay had to wait for is never held back, nor is one after it.
//
// A plain value of one stream; time comes in.
#pragma once

#include <cstddef>

#include "proto/base/time.h"

namespace ember::http {

class BurstPacer {
 public:
  // Nothing is held back for longer, and only where more than one event comes in this time: engines
  // take longer for a token, and no reader sees the difference.
  static constexpr Duration kTick = std::chrono::milliseconds(2);

  // So much is worth a read of its own, and a stream may come as fast as it likes.
  static constexpr size_t kEnoughBytes = 8 << 10;

  // A piece came at `now` and was passed on: when to read the next one; `now`: at once. Streams of
  // one loop wake up together, at multiples of kTick.
  TimePoint NextRead(TimePoint now, size_t piece_bytes) {
    const bool burst = now - last_read_ < kTick && piece_bytes < kEnoughBytes;
    const Duration since = now.time_since_epoch();
    last_read_ = burst ? TimePoint(since - since % kTick + kTick) : now;
    return last_read_;
  }

 private:
  TimePoint last_read_{};  // when the read that brought the last piece began
};

}  // namespace ember::http
