// The Server-Timing header (W3C): where a request's time to its first byte went, in milliseconds.
// A pure function, any thread.
#pragma once

#include <string>

#include "router/telemetry/request_record.h"

namespace ember::router {

// "tokenize;dur=0.4, match;dur=0.002, decide;dur=0.003, queue;dur=0, upstream;dur=81.2".
// `upstream`: from sending to the replica, at `sent_at`, until its first byte.
std::string ServerTiming(const RequestRecord& record, TimePoint sent_at, TimePoint first_byte_at);

}  // namespace ember::router
