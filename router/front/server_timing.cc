#include "router/front/server_timing.h"

#include <fmt/format.h>

namespace ember::router {

std::string ServerTiming(const RequestRecord& record, TimePoint sent_at, TimePoint first_byte_at) {
  const AttemptRecord& attempt = record.attempts.back();
  return fmt::format(
      "tokenize;dur={:.3f}, match;dur={:.3f}, decide;dur={:.3f}, queue;dur={:.3f}, "
      "upstream;dur={:.3f}",
      ToMilliseconds(record.tokenized_at - record.tokenize_from),
      ToMilliseconds(attempt.matched_at - attempt.decide_from),
      ToMilliseconds(attempt.decided_at - attempt.matched_at), ToMilliseconds(record.queued),
      ToMilliseconds(first_byte_at - sent_at));
}

}  // namespace ember::router
