#include "router/estimate/replica_estimate.h"

#include <algorithm>
#include <cmath>

namespace ember::router {
namespace {

constexpr double kNewestWeight = 0.1;  // in the moving average of prefill times
// More than an answer and a block beyond a match is no habit, but a match that was discounted, or
// another request's doing; and much less was evicted.
constexpr double kMaxBeyondTokens = 512;
// A load shorter than this measures a round trip, not a rate.
constexpr uint64_t kMinLoadedTokens = 64;
// Of a queue of others' requests: their lengths are unknown, and it is mostly news of the past.
// Whoever believes it whole flees from every queue it has read of, together with all who read it,
// and leaves its prefixes behind.
constexpr double kReportedWeight = 0.3;
// A report can contain a request that was sent this long before it arrived.
constexpr Duration kReportDelay = milliseconds(20);
// An answer's token takes as long as so many of a prompt: 5 to 10 on a processor, 100 to 300 on the
// largest accelerators. Where nothing is streamed this is all that tells the two apart.
constexpr double kPromptTokensPerOutput = 64;

// Older replies say less of a replica than what others do now: one that seemed slow once, and is
// therefore sent nothing, would seem so for ever.
constexpr Duration kFresh = seconds(60);

}  // namespace

ReplicaEstimate::FlightNumber ReplicaEstimate::OnSent(double expected_ms, TimePoint now) {
  waiting_[next_] = {.sent = now, .expected_ms = expected_ms};
  waiting_ms_ += expected_ms;
  requests_.Add(1, now);
  return next_++;
}

TimePoint ReplicaEstimate::ServedSince(const Flight& flight) const {
  return std::max(flight.sent, last_first_token_);
}

void ReplicaEstimate::OnFirstToken(FlightNumber number, TimePoint now) {
  const auto it = waiting_.find(number);
  if (it == waiting_.end()) return;
  Answers(number, ToMilliseconds(now - ServedSince(it->second)), false);
  last_first_token_ = std::max(last_first_token_, now);
}

void ReplicaEstimate::OnWholeReply(FlightNumber number, TimePoint now) {
  const auto it = waiting_.find(number);
  if (it != waiting_.end()) Answers(number, ToMilliseconds(now - it->second.sent), true);
}

void ReplicaEstimate::Answers(FlightNumber number, double prefill_ms, bool whole) {
  Flights::node_type node = waiting_.extract(number);
  Flight& flight = node.mapped();
  flight.prefill_ms = prefill_ms;
  flight.whole = whole;
  waiting_ms_ = waiting_.empty() ? 0 : waiting_ms_ - flight.expected_ms;
  answering_.insert(std::move(node));
}

void ReplicaEstimate::OnReply(FlightNumber number, const ReplyTokens& tokens, TimePoint now) {
  const auto it = answering_.find(number);
  if (it != answering_.end()) Learn(it->second, tokens, now);
}

void ReplicaEstimate::OnEnd(FlightNumber number) {
  if (const auto node = waiting_.extract(number)) {
    waiting_ms_ = waiting_.empty() ? 0 : waiting_ms_ - node.mapped().expected_ms;
  }
  answering_.erase(number);
}

void ReplicaEstimate::Learn(const Flight& flight, const ReplyTokens& tokens, TimePoint now) {
  if (tokens.prompt == 0 || tokens.cached >= tokens.prompt || tokens.loaded > tokens.cached) return;
  prompt_tokens_.Add(static_cast<double>(tokens.prompt), now);
  cached_tokens_.Add(static_cast<double>(tokens.cached), now);
  if (tokens.predicted > 0 && tokens.loaded == 0) {
    // The prediction had the correction of its time in it already.
    const double error = static_cast<double>(tokens.cached) - static_cast<double>(tokens.predicted);
    if (std::abs(error) <= kMaxBeyondTokens) beyond_tokens_ += kNewestWeight * error;
    beyond_tokens_ = std::clamp(beyond_tokens_, 0.0, kMaxBeyondTokens);
  }
  LearnPrefill(flight, tokens, now);
}

void ReplicaEstimate::LearnPrefill(const Flight& flight, const ReplyTokens& tokens, TimePoint now) {
  const uint64_t computed = tokens.prompt - tokens.cached;
  if (tokens.loaded == 0) {
    if (flight.whole) {
      // Once streams have told its speed the whole reply's time is a bound that is sure.
      const auto n = static_cast<double>(computed);
      const double answer = kPromptTokensPerOutput * static_cast<double>(tokens.output);
      const double share = prefill_.known() ? 1 : n / (n + answer);
      prefill_.ObserveBound(computed, tokens.cached, share * flight.prefill_ms);
    } else {
      // What it did before a silence tells nothing of it any more.
      if (now - prefill_seen_ >= kFresh) prefill_ = {};
      prefill_.Observe(computed, tokens.cached, flight.prefill_ms);
      prefill_seen_ = now;
    }
    // What was measured may be others' prefill as well.
    const double ms =
        std::min(flight.prefill_ms, prefill_.model().PredictMs(computed, tokens.cached));
    typical_prefill_ms_ +=
        (typical_prefill_ms_ == 0 ? 1 : kNewestWeight) * (ms - typical_prefill_ms_);
    return;
  }
  if (flight.whole) return;
  const double load_ms = flight.prefill_ms - prefill_.model().PredictMs(computed, tokens.cached);
  if (tokens.loaded < kMinLoadedTokens || !prefill_.known() || load_ms <= 0) return;
  loads_.Add(load_ms / static_cast<double>(tokens.loaded));
  load_tokens_per_ms_ = 1 / loads_.Quantile(0.5);
  load_tail_tokens_per_ms_ = 1 / loads_.Quantile(0.9);
}

void ReplicaEstimate::OnReport(uint32_t waiting, TimePoint now) {
  const auto ours =
      static_cast<uint64_t>(std::count_if(waiting_.begin(), waiting_.end(), [&](const auto& f) {
        return f.second.sent + kReportDelay <= now;
      }));
  const auto others = static_cast<double>(waiting - std::min<uint64_t>(waiting, ours));
  OnOthers(kReportedWeight * others * typical_prefill_ms_, now);
}

void ReplicaEstimate::OnOthers(double prefill_ms, TimePoint now) {
  others_ms_ = prefill_ms;
  reported_ = now;
}

double ReplicaEstimate::BacklogMs(TimePoint now) const {
  // A queue is another one after the time in which it is worked off, or one request is.
  const double lasts_ms = std::max(1.0, others_ms_ + typical_prefill_ms_);
  const double others_ms = others_ms_ * std::exp(-ToMilliseconds(now - reported_) / lasts_ms);
  if (waiting_.empty()) return others_ms;
  const Flight& oldest = waiting_.begin()->second;
  const double served_ms = ToMilliseconds(now - ServedSince(oldest));
  return others_ms + std::max(0.0, waiting_ms_ - std::clamp(served_ms, 0.0, oldest.expected_ms));
}

void ReplicaEstimate::Describe(TimePoint now, Told told, Replica* view) const {
  if (!told.prefill) {
    view->prefill = prefill_.model();
    view->prefill_basis = !prefill_.begun()              ? PrefillBasis::kNone
                          : !prefill_.known()            ? PrefillBasis::kLittle
                          : now - prefill_seen_ < kFresh ? PrefillBasis::kEnough
                                                         : PrefillBasis::kStale;
  }
  if (load_tokens_per_ms_ > 0) {
    if (!told.load_rate) view->load_tokens_per_ms = load_tokens_per_ms_;
    view->load_tail_tokens_per_ms = load_tail_tokens_per_ms_;
  }
  view->backlog_ms = BacklogMs(now);
  view->typical_prefill_ms = typical_prefill_ms_;
  view->requests_per_ms = requests_.PerMs(now);
  view->cache.beyond_tokens = static_cast<uint32_t>(beyond_tokens_);
  const double prompt = prompt_tokens_.At(now), cached = cached_tokens_.At(now);
  view->cache.reuse = prompt > 0 ? cached / prompt : 0;
  view->cache.churn_tokens_per_ms = prompt_tokens_.PerMs(now) - cached_tokens_.PerMs(now);
}

}  // namespace ember::router
