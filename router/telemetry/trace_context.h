// TraceContext: a request's place in a distributed trace, and the W3C header that carries it
// (Trace Context, level 1: version 00 is written, later versions are read). Plain values, any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proto/base/random.h"

namespace ember::router {

struct TraceId {
  uint64_t high = 0, low = 0;
  std::string ToString() const;  // 32 hexadecimal digits
  bool operator==(const TraceId&) const = default;
};

// 16 hexadecimal digits.
std::string SpanIdText(uint64_t span);

struct Traceparent {
  TraceId trace;
  uint64_t span = 0;  // of the sender
  bool sampled = false;

  // Nothing unless the whole text is valid: a broken one must be treated as absent.
  static std::optional<Traceparent> Parse(std::string_view text);
  std::string ToString() const;
};

struct TraceContext {
  bool active = false;   // false: spans are not exported at all, and headers pass untouched
  bool sampled = false;  // this request's spans are exported
  bool began = false;    // the trace begins here: no tracestate of another one belongs to it
  TraceId trace;
  uint64_t parent = 0;  // span of the sender; 0: none
  uint64_t span = 0;    // of the request

  // Continues the trace of the header, whose sender decides whether it is sampled, or begins one,
  // sampled with this probability.
  static TraceContext Begin(std::string_view traceparent, double ratio, RandomSource& random);
};

}  // namespace ember::router
