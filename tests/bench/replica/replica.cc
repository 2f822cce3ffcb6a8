#include "tests/bench/replica/replica.h"

#include <boost/asio/post.hpp>
#include <cmath>

#include "client/http/await.h"

namespace ember::bench {
namespace {

namespace asio = boost::asio;

// As the real agent reports.
constexpr Duration kReportTick = milliseconds(100);
constexpr Duration kReportInterval = milliseconds(400);
constexpr uint32_t kSlots = 256;

double NowMs() { return ToMilliseconds(SteadyClock().Now().time_since_epoch()); }

TimePoint At(double ms) {
  if (std::isinf(ms)) return TimePoint::max();
  return TimePoint(Duration(static_cast<int64_t>(ms * 1e6)));
}

std::shared_ptr<agent::AgentFeed> NewFeed() {
  auto feed = std::make_shared<agent::AgentFeed>();
  feed->SetIdentity(BenchSpace(), "fake");
  return feed;
}

}  // namespace

Replica::Replica(http::HttpLoop& loop, size_t number, const sim::EngineShape& shape,
                 sim::StoredBlocks* store)
    : loop_(loop),
      number_(number),
      engine_(shape, store),
      idle_(loop.executor()),
      feed_(NewFeed()) {
  feed_->SetReport(ReportNow());
}

void Replica::Start() {
  loop_.Spawn(ComputeInTurn());
  loop_.Spawn(Report());
}

asio::awaitable<std::optional<Engine::Work>> Replica::Compute(Engine::SharedPrompt prompt) {
  const double arrived = NowMs();
  ++counts_.requests;
  pending_tokens_ += prompt->tokens;
  auto waiter = std::make_shared<Waiter>(
      Waiter{.done = asio::steady_timer(loop_.executor(), TimePoint::max()), .work = {}});
  waiters_[engine_.Arrive(prompt, arrived)] = waiter;
  idle_.cancel();
  (void)co_await waiter->done.async_wait(http::kAwait);
  if (!waiter->work) co_return std::nullopt;
  counts_.prompt_tokens += prompt->tokens;
  counts_.cached_tokens += waiter->work->cached_tokens;
  counts_.loaded_tokens += waiter->work->loaded_tokens;
  counts_.output_tokens += prompt->output_tokens;
  counts_.ttft_seconds += (NowMs() - arrived) / 1000;
  ++counts_.first_tokens;
  ++running_;
  co_return std::move(waiter->work);
}

asio::awaitable<void> Replica::ComputeInTurn() {
  for (;;) {
    std::optional<Engine::Work> work = engine_.Next(NowMs());
    if (!work) {
      idle_.expires_at(At(engine_.NextReady()));
      (void)co_await idle_.async_wait(http::kAwait);
      continue;
    }
    Tell(work->prompt->chain);
    const uint64_t life = life_;
    asio::steady_timer end(loop_.executor(), At(work->end));
    (void)co_await end.async_wait(http::kAwait);
    if (life != life_) continue;
    engine_.Keep(work->prompt->chain);
    const auto waiter = waiters_.extract(work->ticket);
    pending_tokens_ -= work->prompt->tokens;
    waiter.mapped()->work = std::move(work);
    waiter.mapped()->done.cancel();
  }
}

void Replica::Finish(const Prompt& prompt) {
  --running_;
  const Chain all = ChainOf(prompt.text + AnswerOf(prompt.output_tokens));
  engine_.Keep(all);
  Tell(all);
}

void Replica::Tell(const Chain& added) {
  const auto feed = Feed();
  for (auto& [slot, blocks] : held_.Update(engine_.cache(), added.hashes)) {
    feed->SetHeld(slot, std::move(blocks));
  }
}

void Replica::Forget() {
  ++life_;
  engine_.Clear();
  for (const auto& [ticket, waiter] : waiters_) waiter->done.cancel();
  waiters_.clear();
  pending_tokens_ = 0;
  running_ = 0;
}

void Replica::Reset() {
  Forget();
  counts_ = {};
  if (const auto feed = Feed()) {
    for (auto& [slot, blocks] : held_.Clear()) feed->SetHeld(slot, std::move(blocks));
  }
}

void Replica::Die() {
  alive_ = false;
  Forget();
  held_.Clear();
  std::shared_ptr<agent::AgentFeed> feed;
  {
    const std::lock_guard lock(mutex_);
    feed = std::exchange(feed_, nullptr);
  }
  if (feed != nullptr) feed->Close();
}

void Replica::Revive() {
  alive_ = true;
  auto feed = NewFeed();
  feed->SetReport(ReportNow());
  const std::lock_guard lock(mutex_);
  feed_ = std::move(feed);
}

std::shared_ptr<agent::AgentFeed> Replica::Feed() const {
  const std::lock_guard lock(mutex_);
  return feed_;
}

void Replica::Hint(Prompt prompt, uint64_t wanted) {
  asio::post(loop_.executor(), [this, prompt = std::move(prompt), wanted] {
    if (alive_ && engine_.Hint(prompt, wanted, NowMs())) ++counts_.hints;
  });
}

agent::FeedReport Replica::ReportNow() const {
  const sim::EngineShape& shape = engine_.shape();
  return {.healthy = true,
          .load = {.slots_total = kSlots,
                   .running = static_cast<uint32_t>(running_ + waiters_.size() - engine_.waiting()),
                   .waiting = static_cast<uint32_t>(engine_.waiting()),
                   .pending_prefill_tokens = pending_tokens_},
          .prefill = {.linear_ms = shape.prefill.linear_ms},
          .load_tokens_per_ms = shape.load_tokens_per_ms,
          .cached_tokens_total = counts_.cached_tokens,
          .computed_tokens_total = counts_.prompt_tokens - counts_.cached_tokens};
}

asio::awaitable<void> Replica::Report() {
  ReplicaLoad last;
  TimePoint said;
  for (;;) {
    const agent::FeedReport now = ReportNow();
    const bool changed = now.load.running != last.running || now.load.waiting != last.waiting;
    const auto feed = Feed();
    if (feed != nullptr && (changed || SteadyClock().Now() - said >= kReportInterval)) {
      feed->SetReport(now);
      last = now.load;
      said = SteadyClock().Now();
    }
    (void)co_await http::SleepFor(kReportTick, nullptr);
  }
}

}  // namespace ember::bench
