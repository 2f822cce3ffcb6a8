#include "client/agent/slot_filler.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "client/agent/elapsed.h"
namespace ember::agent {

namespace asio = boost::asio;

namespace {
constexpr double kAssumedLoadTokensPerMs = 20;  // until something was loaded
constexpr double kLoadRateWeight = 0.3;         // of the newest measurement
constexpr Duration kMinLoadTimeout = milliseconds(100);
constexpr Duration kMaxLoadTimeout = seconds(5);
// After that many restores in a row of which the engine used nothing, loading is pointless.
constexpr int kMaxUnusedRestores = 3;

}  // namespace

double SlotFiller::load_tokens_per_ms() const {
  if (!loader_.enabled()) return 0;
  return load_tokens_per_ms_ > 0 ? load_tokens_per_ms_ : kAssumedLoadTokensPerMs;
}

double SlotFiller::PredictedLoadMs(size_t tokens, size_t ready) const {
  const double rate = load_tokens_per_ms();
  const double ready_rate = restore_tokens_per_ms_ > 0 ? restore_tokens_per_ms_ : rate;
  return static_cast<double>(tokens - ready) / rate + static_cast<double>(ready) / ready_rate;
}

void SlotFiller::LearnRates(size_t tokens, double whole_ms, const LoadedPrefix& loaded,
                            double restore_ms) {
  const auto learn = [tokens](double ms, double* rate) {
    const double now = static_cast<double>(tokens) / std::max(0.1, ms);
    *rate = *rate == 0 ? now : (1 - kLoadRateWeight) * *rate + kLoadRateWeight * now;
  };
  learn(loaded.rebuild_ms + restore_ms, &restore_tokens_per_ms_);
  // As if nothing had been received ahead: who asks for the rate can't know that.
  learn(whole_ms - loaded.waited_ms + loaded.spared_ms, &load_tokens_per_ms_);
}

bool SlotFiller::WorthLoading(size_t prompt, size_t local, size_t remote, size_t ready) const {
  if (remote < local + kTokensPerBlock) return false;
  const PrefillModel model = fit_.model();
  const double saved =
      model.PredictMs(prompt - local, local) - model.PredictMs(prompt - remote, remote);
  return PredictedLoadMs(remote, ready) < saved;
}

bool SlotFiller::loads() const {
  return loader_.enabled() && unused_restores_ < kMaxUnusedRestores;
}

size_t SlotFiller::LoadableSegments(const FillWish& wish) const {
  const size_t prompt = wish.prompt->tokens.size();
  const bool may = wish.use_store && !wish.recompute && loads() && prompt > 0 &&
                   prompt < wish.identity->props.context_tokens;
  return may ? (prompt - 1) / kTokensPerBlock : 0;  // one token is always computed
}

asio::awaitable<bool> SlotFiller::Erase(SlotTable::Lease& lease, RequestRecord& record) {
  const Status status = co_await engine_.EraseSlot(lease.slot());
  if (status.ok()) {
    lease.SetContent({true, {}});
    co_return true;
  }
  metrics_.Failure(CacheFailure::kEraseFailed).Add();
  record.notes.push_back(status.ToString());
  lease.SetContent({});
  if (status.code() == StatusCode::kUnavailable) monitor_.NoteEngineGone(status.message());
  co_return false;
}

asio::awaitable<Filled> SlotFiller::Fill(const FillWish& wish, SlotTable::Lease& lease,
                                         RequestRecord& record) {
  Filled out;
  const std::vector<TokenId>& prompt = wish.prompt->tokens;
  const size_t reusable = prompt.empty() ? 0 : prompt.size() - 1;
  if (!lease.content().known || wish.recompute) out.may_reuse = co_await Erase(lease, record);
  size_t local = 0;
  if (out.may_reuse) local = std::min(CommonPrefix(lease.content().tokens, prompt), reusable);
  record.local_tokens = local;
  out.cached_tokens = local;

  const size_t most = out.may_reuse ? LoadableSegments(wish) : 0;
  if (most * kTokensPerBlock >= local + kTokensPerBlock) {
    const StoreMatch match = co_await loader_.Match(*wish.identity, *wish.prompt, most);
    record.match_ms = match.match_ms;
    if (match.miss) metrics_.misses[static_cast<size_t>(*match.miss)]->Add();
    record.matched_tokens = match.segments * kTokensPerBlock;
    const size_t ready = loader_.ReadyPrefix(*wish.prompt, match.segments) * kTokensPerBlock;
    if (WorthLoading(prompt.size(), local, record.matched_tokens, ready)) {
      const auto loaded = co_await LoadInto(wish, match.segments, local, lease, record);
      if (!loaded) {
        out.may_reuse = co_await Erase(lease, record);
        out.cached_tokens = 0;
      } else if (*loaded > 0) {
        out.route = Route::kRemote;
        out.cached_tokens = *loaded * kTokensPerBlock;
        record.remote_tokens = out.cached_tokens;
        co_return out;
      }
    }
  }
  // A few tokens in common (a template's first words) are no local hit.
  const bool hit = out.cached_tokens >= kTokensPerBlock || out.cached_tokens * 2 > reusable;
  out.route = hit && out.cached_tokens > 0 ? Route::kLocal : Route::kRecompute;
  co_return out;
}

asio::awaitable<std::optional<size_t>> SlotFiller::LoadInto(const FillWish& wish, size_t segments,
                                                            size_t local, SlotTable::Lease& lease,
                                                            RequestRecord& record) {
  const TimePoint start = std::chrono::steady_clock::now();
  // Beyond the time that computing would take, what has arrived must do.
  const double compute_ms = fit_.model().PredictMs(wish.prompt->tokens.size() - local, local);
  const auto budget = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double, std::milli>(std::min(compute_ms, 1e6)));
  const LoadedPrefix loaded =
      co_await loader_.Load(*wish.identity, *wish.prompt, segments, lease.slot(),
                            std::clamp(budget, kMinLoadTimeout, kMaxLoadTimeout));
  record.transfer_ms = loaded.transfer_ms;
  record.rebuild_ms = loaded.rebuild_ms;
  record.segments = loaded.segments;
  record.prefetched_segments = loaded.prefetched;
  record.prefetch_lead_ms = loaded.lead_ms;
  record.bytes_loaded = loaded.bytes;
  if (!loaded.status.ok()) {
    record.notes.push_back(loaded.status.ToString());
    co_return 0;
  }
  const size_t tokens = loaded.segments * kTokensPerBlock;
  if (tokens < local + kTokensPerBlock) {
    record.notes.push_back("load: too little arrived");
    co_return 0;
  }
  const TimePoint restore_start = std::chrono::steady_clock::now();
  const Result<SlotAction> restored =
      co_await engine_.RestoreSlot(lease.slot(), folder_.RestoreName(lease.slot()));
  record.restore_ms = MsSince(restore_start);
  if (!restored.ok() || restored->tokens != tokens) {
    const std::string why = restored.ok() ? "the engine restored another number of tokens"
                                          : restored.status().ToString();
    spdlog::warn("request {}: restore into slot {} failed, recomputing: {}", record.id,
                 lease.slot(), why);
    metrics_.Failure(CacheFailure::kRestoreFailed).Add();
    record.notes.push_back(why);
    co_return std::nullopt;
  }
  metrics_.restore.Observe(record.restore_ms / 1e3);
  metrics_.loaded_tokens.Add(tokens);
  const auto& prompt = wish.prompt->tokens;
  lease.SetContent({true, {prompt.begin(), prompt.begin() + tokens}});
  LearnRates(tokens, MsSince(start), loaded, record.restore_ms);
  co_return loaded.segments;
}

void SlotFiller::NoteResult(const Filled& filled, const EngineTimings& timings,
                            RequestRecord& record) {
  fit_.Observe(timings.computed_tokens, timings.cached_tokens, timings.prompt_ms);
  if (filled.route == Route::kRemote) {
    unused_restores_ = timings.cached_tokens == 0 ? unused_restores_ + 1 : 0;
  }
  if (timings.cached_tokens >= filled.cached_tokens) return;
  const bool unused = filled.route == Route::kRemote && timings.cached_tokens == 0;
  metrics_.Failure(unused ? CacheFailure::kRestoreUnused : CacheFailure::kBeliefWrong).Add();
  const std::string why = "the engine reused " + std::to_string(timings.cached_tokens) +
                          " tokens where " + std::to_string(filled.cached_tokens) +
                          " were expected";
  spdlog::warn("request {}: {}{}", record.id, why,
               unused_restores_ >= kMaxUnusedRestores ? "; loading is off until it restarts" : "");
  record.notes.push_back(why);
}

}  // namespace ember::agent
