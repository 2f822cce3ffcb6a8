#include "client/agent/prefetcher.h"

#include <algorithm>

namespace ember::agent {

namespace asio = boost::asio;

namespace {
// Half of the loader's workers: a load never finds all of them busy with this.
constexpr size_t kMaxTransfers = 2;
constexpr size_t kMaxLine = 64;
// Received at a time: a load that joins a transfer which is too slow has what came before.
constexpr size_t kMaxPieceBytes = 16u << 20;
constexpr Duration kPieceTimeout = seconds(5);
// A transfer that did not begin until then comes too late for what it was asked for.
constexpr Duration kMaxWaitInLine = seconds(30);

TimePoint Now() { return std::chrono::steady_clock::now(); }

std::span<const SegmentRef> RefsOf(const PrefetchWish& wish) {
  return std::span(wish.prompt->refs).first(wish.segments);
}
}  // namespace

PrefetchAnswer Prefetcher::Hint(PrefetchWish wish) {
  return Admit({std::move(wish), true, {}, Now() + kMaxWaitInLine});
}

std::shared_ptr<Prefetcher::Claim> Prefetcher::Start(PrefetchWish wish) {
  auto claim = std::make_shared<Claim>();
  claim->segments_ = cache_.Find(RefsOf(wish));
  (void)Admit({std::move(wish), false, claim, Now() + kMaxWaitInLine});
  return claim;
}

PrefetchAnswer Prefetcher::Admit(Job job) {
  PrefetchAnswer out;
  if (stopped_ || !loader_.enabled() || cache_.max_bytes() == 0) {
    out = {PrefetchAnswer::kNothing, "there is no store, or prefetching is off"};
  } else if (job.wish.segments == 0) {
    out = {PrefetchAnswer::kNothing, "not a whole block of the prompt could be used"};
  } else if (loader_.paused()) {
    out = {PrefetchAnswer::kNothing, "the store was late and is left alone for a while"};
  } else if (std::ranges::count(cache_.Find(RefsOf(job.wish)), nullptr) == 0) {
    out = {PrefetchAnswer::kAlreadyThere, ""};
  } else if (line_.size() >= kMaxLine) {
    out = {PrefetchAnswer::kNoRoom, "too many transfers wait"};
  } else if (job.wish.identity->shape.PayloadBytes(kTokensPerBlock) > cache_.max_bytes()) {
    out = {PrefetchAnswer::kNoRoom, "a block is larger than --prefetch-mib"};
  } else {
    line_.push_back(std::move(job));
    Pump();
    return {PrefetchAnswer::kAccepted, ""};
  }
  metrics_
      .Prefetched(out.kind == PrefetchAnswer::kAlreadyThere ? PrefetchOutcome::kAlreadyThere
                  : out.kind == PrefetchAnswer::kNoRoom     ? PrefetchOutcome::kNoRoom
                                                            : PrefetchOutcome::kNothing)
      .Add();
  return out;
}

void Prefetcher::Pump() {
  while (running_ < kMaxTransfers && !line_.empty()) {
    Job job = std::move(line_.front());
    line_.pop_front();
    if (stopped_ || Now() >= job.give_up_at || (!job.hint && job.claim.expired())) {
      metrics_.Prefetched(PrefetchOutcome::kNotWanted).Add();
      continue;
    }
    ++running_;
    loop_.Spawn(Run(std::move(job)));  // may run at once
  }
}

asio::awaitable<void> Prefetcher::Run(Job job) {
  metrics_.Prefetched(co_await Transfer(job)).Add();
  --running_;
  Pump();
}

asio::awaitable<PrefetchOutcome> Prefetcher::Transfer(const Job& job) {
  const PrefetchWish& wish = job.wish;
  const StoreMatch match = co_await loader_.Match(*wish.identity, *wish.prompt, wish.segments);
  if (match.segments == 0) co_return PrefetchOutcome::kNothing;
  const std::vector<PrefetchCache::Segment> found = cache_.Find(RefsOf(wish).first(match.segments));
  const size_t bytes = wish.identity->shape.PayloadBytes(kTokensPerBlock);
  std::vector<size_t> numbers;
  std::vector<PrefetchCache::Segment> missing;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] != nullptr) continue;
    PrefetchCache::Segment room = cache_.Add(wish.prompt->refs[i], bytes, Now());
    if (room == nullptr) break;
    numbers.push_back(i);
    missing.push_back(std::move(room));
  }
  if (const auto claim = job.claim.lock()) {
    claim->segments_ = found;
    claim->segments_.insert(claim->segments_.end(), missing.begin(), missing.end());
  }
  const bool complete = std::ranges::count(found, nullptr) == static_cast<long>(missing.size());
  if (missing.empty()) {
    co_return complete ? PrefetchOutcome::kAlreadyThere : PrefetchOutcome::kNoRoom;
  }
  const size_t received = co_await Receive(wish, numbers, missing);
  const auto failed = std::span(missing).subspan(received);
  cache_.Drop(failed);
  for (const PrefetchCache::Segment& segment : failed) segment->settled.Cancel();
  co_return received == 0 ? PrefetchOutcome::kFailed : PrefetchOutcome::kTransferred;
}

asio::awaitable<size_t> Prefetcher::Receive(const PrefetchWish& wish,
                                            std::span<const size_t> numbers,
                                            std::span<const PrefetchCache::Segment> segments) {
  const LoadPriority::Hold hold(loader_.priority());
  const size_t piece = std::max<size_t>(1, kMaxPieceBytes / segments.front()->bytes);
  size_t received = 0;
  while (received < segments.size() && !stopped_) {
    const size_t n = std::min(piece, segments.size() - received);
    const auto now = segments.subspan(received, n);
    std::vector<MutableByteSpan> buffers;
    for (const PrefetchCache::Segment& segment : now) buffers.push_back(segment->span());
    const TimePoint start = Now();
    const size_t usable = co_await loader_.Receive(
        *wish.identity, *wish.prompt, numbers.subspan(received, n), buffers, kPieceTimeout);
    const TimePoint end = Now();
    for (size_t i = 0; i < usable; ++i) {
      now[i]->ready = true;
      now[i]->ready_at = end;
      now[i]->transfer_ms = ToMilliseconds(end - start) / static_cast<double>(n);
      now[i]->settled.Cancel();
      metrics_.prefetch_bytes.Add(now[i]->bytes);
    }
    received += usable;
    if (usable < n) break;
  }
  co_return received;
}

}  // namespace ember::agent
