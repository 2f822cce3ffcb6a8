#include "router/telemetry/trace_context.h"

#include <fmt/format.h>

namespace ember::router {
namespace {

// Lower case only, as the standard demands.
std::optional<uint64_t> ReadHex(std::string_view text) {
  uint64_t value = 0;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && !(c >= 'a' && c <= 'f')) return std::nullopt;
    value = value << 4 | static_cast<uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  return value;
}

uint64_t NonZero(RandomSource& random) {
  uint64_t id = 0;
  while (id == 0) id = random.Next();
  return id;
}

}  // namespace

std::string TraceId::ToString() const { return fmt::format("{:016x}{:016x}", high, low); }

std::string SpanIdText(uint64_t span) { return fmt::format("{:016x}", span); }

std::optional<Traceparent> Traceparent::Parse(std::string_view text) {
  constexpr size_t kLength = 55;  // 00-<32>-<16>-<2>
  if (text.size() < kLength || text[2] != '-' || text[35] != '-' || text[52] != '-') return {};
  const auto version = ReadHex(text.substr(0, 2));
  const auto high = ReadHex(text.substr(3, 16)), low = ReadHex(text.substr(19, 16));
  const auto span = ReadHex(text.substr(36, 16)), flags = ReadHex(text.substr(53, 2));
  if (!version || !high || !low || !span || !flags || *version == 0xff) return {};
  // Later versions may go on after another dash.
  if (text.size() > kLength && (*version == 0 || text[kLength] != '-')) return {};
  if ((*high == 0 && *low == 0) || *span == 0) return {};
  return Traceparent{{*high, *low}, *span, (*flags & 1) != 0};
}

std::string Traceparent::ToString() const {
  return fmt::format("00-{}-{:016x}-{:02x}", trace.ToString(), span, sampled ? 1 : 0);
}

TraceContext TraceContext::Begin(std::string_view traceparent, double ratio, RandomSource& random) {
  TraceContext out{.active = true, .span = NonZero(random)};
  if (const auto sender = Traceparent::Parse(traceparent)) {
    out.trace = sender->trace;
    out.parent = sender->span;
    out.sampled = sender->sampled;
    return out;
  }
  out.began = true;
  out.trace = {NonZero(random), NonZero(random)};
  // By the trace's own bits, so that all who go by the same ratio agree.
  constexpr double kBits = 18446744073709551616.0;  // 2^64
  out.sampled = static_cast<double>(out.trace.low) < ratio * kBits;
  return out;
}

}  // namespace ember::router
