#include "client/agent/slot_filler.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace ember::agent {

namespace asio = boost::asio;

namespace {
constexpr double kAssumedLoadTokensPerMs = 20;  // until something was loaded
constexpr double kLoadRateWeight = 0.3;         // of the newest measurement
constexpr Duration kMinLoadTimeout = milliseconds(100);
constexpr Duration kMaxLoadTimeout = seconds(5);
// After that many restores in a row of which the engine used nothing, loading is pointless.
constexpr int kMaxUnusedRestores = 3;

double MsSince(TimePoint start) { return ToMilliseconds(std::chrono::steady_clock::now() - start); }
}  // namespace

double SlotFiller::load_tokens_per_ms() const {
  if (!loader_.enabled()) return 0;
  return load_tokens_per_ms_ > 0 ? load_tokens_per_ms_ : kAssumedLoadTokensPerMs;
}

double SlotFiller::PredictedLoadMs(size_t tokens) const {
  return static_cast<double>(tokens) / load_tokens_per_ms();
}

bool SlotFiller::WorthLoading(size_t prompt, size_t local, size_t remote) const {
  if (remote < local + kTokensPerBlock) return false;
  const PrefillModel model = fit_.model();
  const double saved =
      model.PredictMs(prompt - local, local) - model.PredictMs(prompt - remote, remote);
  return PredictedLoadMs(remote) < saved;
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
  const size_t reusable = prompt.empty() ? 0 : prompt.size() - 1;  // one token is always computed
  if (!lease.content().known || wish.recompute) out.may_reuse = co_await Erase(lease, record);
  size_t local = 0;
  if (out.may_reuse) local = std::min(CommonPrefix(lease.content().tokens, prompt), reusable);
  record.local_tokens = local;
  out.cached_tokens = local;

  const size_t most = reusable / kTokensPerBlock;
  const bool ask = wish.use_store && !wish.recompute && loader_.enabled() && out.may_reuse &&
                   unused_restores_ < kMaxUnusedRestores &&
                   prompt.size() < wish.identity->props.context_tokens &&
                   most * kTokensPerBlock >= local + kTokensPerBlock;
  if (ask) {
    const StoreMatch match = co_await loader_.Match(*wish.identity, *wish.prompt, most);
    record.match_ms = match.match_ms;
    record.matched_tokens = match.segments * kTokensPerBlock;
    if (WorthLoading(prompt.size(), local, record.matched_tokens)) {
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
  const double rate = static_cast<double>(tokens) / std::max(0.1, MsSince(start));
  load_tokens_per_ms_ = load_tokens_per_ms_ == 0
                            ? rate
                            : (1 - kLoadRateWeight) * load_tokens_per_ms_ + kLoadRateWeight * rate;
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
