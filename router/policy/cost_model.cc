#include "router/policy/cost_model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "router/policy/load.h"

namespace ember::router {
namespace {

// Used until a replica has finished requests of its own.
constexpr double kDefaultServiceMs = 1000;
// From a replica's host memory, until it is measured: 5 GB/s for 100 kB a token.
constexpr double kDefaultCopyTokensPerMs = 50;
constexpr double kTailWeight = 0.5;
// Of a match being evicted before the request runs: in a long queue others ask for it meanwhile.
constexpr double kMaxRisk = 0.25;
// Those who wait for what is computed now, and as many again who come while they wait and find a
// longer queue than there would have been.
constexpr double kDelayedByOne = 2;
// While no speed is known, waits may be guessed a hundred times too long, and work would be so much
// too dear that a burst all waited at one replica for its first request's prefix.
constexpr double kBehindAtMostGuessed = 0.25;
// What is evicted is the least recently used: at mean churn a quarter of it would have been asked
// for again, as often as other tokens are. A replica with k times the churn throws out what was
// used k times more recently, and near that quarter the chance grows with about its fourth power.
constexpr double kLastUsedShare = 0.25;
constexpr double kChurnPower = 4;
// Of the time to compute a prefix that others share already, when there is free memory for it.
constexpr double kWarmingWorth = 1.0;
// Of a request's prefill at a replica of unknown speed.
constexpr double kLearningWorth = 0.5;

double QueueMs(const Candidate& candidate) {
  const Replica& r = *candidate.replica;
  const uint64_t requests = RequestsAt(r);
  double ms = r.backlog_ms;
  if (const uint64_t slots = r.load.slots_total; slots > 0 && requests >= slots) {
    // Slots come free one after the other, `slots` of them in a request's mean time.
    const double service = candidate.service_ms > 0 ? candidate.service_ms : kDefaultServiceMs;
    ms += static_cast<double>(requests - slots + 1) * service / static_cast<double>(slots);
  }
  return ms;
}

// What running requests hold is given up at their ends only, of which one comes in so long.
double WaitForRoomMs(const Candidate& candidate, uint64_t fresh_tokens) {
  const Replica& r = *candidate.replica;
  const double room = static_cast<double>(r.cache.capacity_tokens) * (1 - r.load.kv_usage);
  if (r.cache.capacity_tokens == 0 || static_cast<double>(fresh_tokens) <= room) return 0;
  const double service = candidate.service_ms > 0 ? candidate.service_ms : kDefaultServiceMs;
  return service / static_cast<double>(std::max<uint64_t>(1, RequestsAt(r)));
}

// Of the cache: neither held nor used by running requests.
double FreeShare(const Replica& r) {
  if (r.cache.capacity_tokens == 0) return 0;
  const double held =
      static_cast<double>(r.cache.held_tokens) / static_cast<double>(r.cache.capacity_tokens);
  return std::max(0.0, 1 - r.load.kv_usage - held);
}

double RiskOfEviction(const Replica& r, double wait_ms) {
  if (r.cache.capacity_tokens == 0) return 0;
  return std::min(kMaxRisk, r.cache.churn_tokens_per_ms * wait_ms /
                                static_cast<double>(r.cache.capacity_tokens));
}

// What one token that is lost costs when it is asked for again.
double WorthOfToken(const Replica& r, const PrefillModel& prefill, uint64_t prompt_tokens) {
  const double compute_ms =
      prefill.linear_ms + prefill.context_ms * static_cast<double>(prompt_tokens) / 2;
  return r.load_tokens_per_ms > 0 ? std::min(compute_ms, 1 / r.load_tokens_per_ms) : compute_ms;
}

}  // namespace

CostModel::CostModel(const PolicyInput& input) : input_(input) {
  std::vector<uint64_t> matches;
  std::vector<const PrefillModel*> known;
  std::vector<uint32_t> beyond;
  double requests_per_ms = 0, wait_ms = 0;
  for (const Candidate& c : input.candidates) {
    matches.push_back(c.match.device_tokens);
    mean_churn_ += c.replica->cache.churn_tokens_per_ms;
    mean_free_ += FreeShare(*c.replica);
    requests_per_ms += c.replica->requests_per_ms;
    wait_ms += QueueMs(c) + c.replica->typical_prefill_ms;
    best_basis_ = std::max(best_basis_, c.replica->prefill_basis);
  }
  for (const Candidate& c : input.candidates) {
    const PrefillBasis basis = c.replica->prefill_basis;
    if (basis != best_basis_) continue;
    beyond.push_back(c.replica->cache.beyond_tokens);
    if (basis != PrefillBasis::kNone) known.push_back(&c.replica->prefill);
  }
  const auto n = static_cast<double>(input.candidates.size());
  mean_churn_ /= n;
  mean_free_ /= n;
  behind_ = kDelayedByOne * requests_per_ms / n * (wait_ms / n);
  if (best_basis_ == PrefillBasis::kNone) behind_ = std::min(behind_, kBehindAtMostGuessed);
  std::sort(matches.begin(), matches.end(), std::greater<>());
  longest_tokens_ = matches.front();
  if (matches.size() > 1) shared_tokens_ = matches[1];
  std::nth_element(beyond.begin(), beyond.begin() + beyond.size() / 2, beyond.end());
  beyond_tokens_ = beyond[beyond.size() / 2];
  if (known.empty()) return;
  const auto middle = known.begin() + static_cast<ptrdiff_t>(known.size() / 2);
  std::nth_element(known.begin(), middle, known.end(), [&](const auto* a, const auto* b) {
    return a->PredictMs(input.prompt_tokens, 0) < b->PredictMs(input.prompt_tokens, 0);
  });
  typical_ = **middle;
}

CandidateCost CostModel::Of(const Candidate& candidate) const {
  const Replica& r = *candidate.replica;
  const bool unknown = r.prefill_basis < best_basis_;
  // Little is not enough to tell replicas apart.
  const bool own = !unknown && best_basis_ != PrefillBasis::kLittle;
  const PrefillModel& prefill = own ? r.prefill : *typical_;
  CandidateCost cost{.replica = r.id, .rank = r.rank, .queue_ms = QueueMs(candidate)};
  ChooseLoad(candidate, prefill, &cost);
  cost.queue_ms += WaitForRoomMs(candidate, input_.prompt_tokens - cost.local_tokens);
  AddDisplacement(r, prefill, &cost);
  if (unknown) cost.exploration_ms += kLearningWorth * cost.prefill_ms;
  // At the fleet's speed, whatever the replica's: those who wait elsewhere are not delayed by a
  // slow one that works, and would never be sent there if its price grew with their queue.
  const uint64_t context = uint64_t{cost.local_tokens} + cost.remote_tokens;
  const double work_ms =
      typical_ ? typical_->PredictMs(input_.prompt_tokens - context, context) : cost.prefill_ms;
  cost.crowding_ms = behind_ * (work_ms + cost.displacement_ms - cost.exploration_ms);
  cost.ttft_ms = cost.queue_ms + cost.load_ms + cost.prefill_ms;
  cost.total_ms =
      cost.ttft_ms + cost.tail_ms + cost.displacement_ms - cost.exploration_ms + cost.crowding_ms;
  return cost;
}

void CostModel::ChooseLoad(const Candidate& candidate, const PrefillModel& prefill,
                           CandidateCost* cost) const {
  const Replica& r = *candidate.replica;
  const uint64_t prompt = input_.prompt_tokens;
  // The last token is always computed: its logits are the answer's first.
  const uint64_t usable = prompt > 0 ? prompt - 1 : 0;
  const auto held = [&](uint64_t tokens) {
    if (std::min(tokens, usable) < kMinMatchTokens) return uint64_t{0};
    tokens = std::min(tokens + beyond_tokens_, usable);
    const double left = 1 - RiskOfEviction(r, cost->queue_ms);
    return static_cast<uint64_t>(static_cast<double>(tokens) * left);
  };
  const uint64_t device = held(candidate.match.device_tokens);
  const uint64_t tiers = std::max(device, held(candidate.match.any_tier_tokens));
  const uint64_t in_store = candidate.match.store_tokens.value_or(input_.store_tokens);
  const uint64_t stored = r.load_tokens_per_ms > 0 ? std::min(in_store, usable) : 0;
  const double copy = r.copy_tokens_per_ms > 0 ? r.copy_tokens_per_ms : kDefaultCopyTokensPerMs;
  const double tail =
      std::min(r.load_tail_tokens_per_ms > 0 ? r.load_tail_tokens_per_ms : r.load_tokens_per_ms,
               r.load_tokens_per_ms);
  double least = 0;
  // Each token copied or loaded saves linear_ms + context_ms * (its position), which grows along
  // the prompt, and costs the same everywhere: so the minimum is at nothing or at everything.
  for (const uint64_t local : {device, tiers}) {
    for (const uint64_t context : {local, std::max(local, stored)}) {
      const double copied = static_cast<double>(local - device);
      const double loaded = static_cast<double>(context - local);
      const double load_ms = copied / copy + (loaded > 0 ? loaded / r.load_tokens_per_ms : 0);
      const double tail_ms =
          loaded > 0 ? kTailWeight * loaded * (1 / tail - 1 / r.load_tokens_per_ms) : 0;
      const double prefill_ms = prefill.PredictMs(prompt - std::min(context, prompt), context);
      const double sum = load_ms + tail_ms + prefill_ms;
      if (local == device && context == device) {
        least = sum;
      } else if (sum >= least) {
        continue;
      }
      least = sum;
      cost->load_ms = load_ms;
      cost->tail_ms = tail_ms;
      cost->prefill_ms = prefill_ms;
      cost->local_tokens = static_cast<uint32_t>(local);
      cost->remote_tokens = static_cast<uint32_t>(context - local);
    }
  }
}

void CostModel::AddDisplacement(const Replica& r, const PrefillModel& prefill,
                                CandidateCost* cost) const {
  const ReplicaCache& cache = r.cache;
  const uint64_t local = cost->local_tokens;
  const auto fresh = static_cast<double>(input_.prompt_tokens - local);
  const double worth = WorthOfToken(r, prefill, input_.prompt_tokens);
  double evicted = 0;
  if (cache.capacity_tokens > 0) {
    const double room = static_cast<double>(cache.capacity_tokens) * (1 - r.load.kv_usage) -
                        static_cast<double>(cache.held_tokens);
    evicted = std::max(0.0, fresh - std::max(0.0, room));
  }
  if (evicted > 0) {
    const double churn = mean_churn_ > 0 ? cache.churn_tokens_per_ms / mean_churn_ : 1;
    const double chance = std::min(1.0, kLastUsedShare * std::pow(churn, kChurnPower));
    // What one other replica alone holds is a conversation's own: it moves, and leaves a copy
    // behind that takes room from what would be asked for.
    const uint64_t kept = std::max(local, shared_tokens_);
    const auto abandoned = static_cast<double>(longest_tokens_ - std::min(kept, longest_tokens_));
    cost->displacement_ms = (evicted * chance + abandoned) * cache.reuse * worth;
  }
  if (cost->queue_ms > 0) return;
  const auto beyond = [&](uint64_t tokens) {
    return static_cast<double>(tokens - std::min(local, tokens));
  };
  // What several hold is asked for by many: it will be asked for here. What one alone holds, where
  // others go on after it, is as well; a copy of it is only of use where there is more room than
  // elsewhere, for else each replica would soon have all.
  const double shared =
      std::max(beyond(shared_tokens_), beyond(std::min(longest_tokens_, input_.branch_tokens)) *
                                           std::max(0.0, FreeShare(r) - mean_free_));
  cost->exploration_ms = kWarmingWorth * std::min(shared, fresh - evicted) * worth;
}

}  // namespace ember::router
