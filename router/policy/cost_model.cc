#include "router/policy/cost_model.h"

#include <algorithm>

#include "router/policy/load.h"

namespace ember::router {
namespace {

// Used until a replica has finished requests of its own.
constexpr double kDefaultServiceMs = 1000;

double QueueMs(const Candidate& candidate) {
  const Replica& r = *candidate.replica;
  const uint64_t requests = LoadOf(r);
  if (requests == 0) return 0;
  // The model is not linear in a request's length, so the backlog is costed as equal requests.
  const double tokens = static_cast<double>(r.load.pending_prefill_tokens) +
                        static_cast<double>(r.in_flight_prefill_tokens);
  const double share = tokens / static_cast<double>(requests);
  double ms = static_cast<double>(requests) *
              r.prefill.PredictMs(static_cast<uint64_t>(std::max(share, 0.0)), 0);
  if (const uint64_t slots = r.load.slots_total; slots > 0 && requests >= slots) {
    // Slots come free one after the other, `slots` of them in a request's mean time.
    const double service = candidate.service_ms > 0 ? candidate.service_ms : kDefaultServiceMs;
    ms += static_cast<double>(requests - slots + 1) * service / static_cast<double>(slots);
  }
  return ms;
}

}  // namespace

CandidateCost CostOf(const Candidate& candidate, const PolicyInput& input) {
  const Replica& r = *candidate.replica;
  CandidateCost cost{.replica = r.id, .rank = r.rank, .queue_ms = QueueMs(candidate)};
  // The last token is always computed: its logits are the answer's first.
  const uint64_t usable = input.prompt_tokens > 0 ? input.prompt_tokens - 1 : 0;
  uint64_t local = std::min<uint64_t>(candidate.match.device_tokens, usable);
  if (local < kMinMatchTokens) local = 0;
  const auto prefill_from = [&](uint64_t context) {
    return r.prefill.PredictMs(input.prompt_tokens - std::min(context, input.prompt_tokens),
                               context);
  };
  cost.local_tokens = static_cast<uint32_t>(local);
  cost.prefill_ms = prefill_from(local);
  // Each token loaded saves prefill_linear + prefill_context * (its position), which grows along
  // the prompt, and costs the same everywhere: so the minimum is at nothing or at everything.
  const uint64_t stored = std::min(input.store_tokens, usable);
  if (stored > local && r.load_tokens_per_ms > 0) {
    const double load_ms = static_cast<double>(stored - local) / r.load_tokens_per_ms;
    const double prefill_ms = prefill_from(stored);
    if (load_ms + prefill_ms < cost.prefill_ms) {
      cost.load_ms = load_ms;
      cost.prefill_ms = prefill_ms;
      cost.remote_tokens = static_cast<uint32_t>(stored - local);
    }
  }
  cost.ttft_ms = cost.queue_ms + cost.load_ms + cost.prefill_ms;
  cost.total_ms = cost.ttft_ms;
  return cost;
}

}  // namespace ember::router
