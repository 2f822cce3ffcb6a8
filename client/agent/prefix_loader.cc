#include "client/agent/prefix_loader.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "client/agent/elapsed.h"
#include "client/agent/slot_file.h"
#include "client/http/loop.h"

namespace ember::agent {

namespace asio = boost::asio;

namespace {
constexpr size_t kWorkers = 4;
constexpr Duration kMatchTimeout = seconds(1);
constexpr Duration kPause = seconds(2);
constexpr size_t kMaxSpareBytes = 128u << 20;  // buffers kept between loads

TimePoint Now() { return std::chrono::steady_clock::now(); }

// Runs blocking work on the pool. `work` and what it refers to live in the waiting coroutine, which
// resumes only after it.
template <typename Work>
asio::awaitable<std::invoke_result_t<Work>> RunBlocking(asio::thread_pool& pool, Work work) {
  std::invoke_result_t<Work> out{};
  co_await asio::co_spawn(
      pool,
      [&]() -> asio::awaitable<void> {
        out = work();
        co_return;
      },
      asio::use_awaitable);
  co_return out;
}

std::span<const TokenId> TokensOf(const PromptSegments& prompt, size_t segment) {
  return std::span(prompt.tokens).subspan(segment * kTokensPerBlock, kTokensPerBlock);
}

MissReason FirstMiss(const GetResult& got) {
  return got.misses.empty() ? MissReason::kLostNode : got.misses.front();
}

// The store has it no more, rather than can't be asked.
bool IsGone(MissReason reason) {
  return reason == MissReason::kPurged || reason == MissReason::kNeverStored ||
         reason == MissReason::kEvicted || reason == MissReason::kExpired;
}
}  // namespace

std::shared_ptr<PromptSegments> SegmentsOf(const EngineIdentity& identity,
                                           std::vector<TokenId> prompt) {
  HashChain chain(identity.root, kTokensPerBlock);
  chain.Append(prompt);
  auto out = std::make_shared<PromptSegments>();
  out->tokens = std::move(prompt);
  out->refs = CutSegments(chain);
  return out;
}

PrefixLoader::PrefixLoader(StoreClient* store, const SlotFolder& folder, PrefetchCache& prefetched,
                           AgentMetrics& metrics)
    : store_(store),
      folder_(folder),
      prefetched_(prefetched),
      metrics_(metrics),
      workers_(kWorkers) {}

void PrefixLoader::Stop() { workers_.join(); }

bool PrefixLoader::paused() const { return Now() < paused_until_; }

void PrefixLoader::NoteAnswer(bool timed_out) {
  if (!timed_out) return;
  metrics_.Failure(CacheFailure::kStoreTimeout).Add();
  paused_until_ = Now() + kPause;
}

asio::awaitable<StoreMatch> PrefixLoader::Match(const EngineIdentity& identity,
                                                const PromptSegments& prompt, size_t limit) {
  StoreMatch out;
  const size_t count = std::min(limit, prompt.refs.size());
  if (store_ == nullptr || count == 0 || paused()) co_return out;
  const LoadPriority::Hold hold(priority_);
  const TimePoint start = Now();
  const auto refs = std::span(prompt.refs).first(count);
  const MatchResult match =
      co_await RunBlocking(workers_, [&] { return store_->Match(refs, kMatchTimeout); });
  out.match_ms = MsSince(start);
  metrics_.match.Observe(out.match_ms / 1e3);
  // Whatever the store says it has must be of the one size that our payloads have.
  const uint64_t want = identity.shape.PayloadBytes(kTokensPerBlock);
  const size_t usable = std::min(match.usable, std::min(count, match.segments.size()));
  while (out.segments < usable && match.segments[out.segments].payload_bytes == want)
    ++out.segments;
  if (out.segments < match.segments.size()) {
    out.miss = match.segments[out.segments].miss;
    NoteAnswer(out.miss == MissReason::kDeadline);
    if (IsGone(*out.miss)) prefetched_.Drop(prefetched_.Find(refs.subspan(out.segments)));
  }
  co_return out;
}

asio::awaitable<size_t> PrefixLoader::Receive(const EngineIdentity& identity,
                                              const PromptSegments& prompt,
                                              std::span<const size_t> numbers,
                                              std::span<const MutableByteSpan> buffers,
                                              Duration timeout) {
  const GetResult got = co_await RunBlocking(
      workers_, [&] { return GetNow(identity, prompt, numbers, buffers, timeout); });
  const size_t usable = std::min(got.usable, numbers.size());
  NoteAnswer(usable == 0 && FirstMiss(got) == MissReason::kDeadline);
  co_return usable;
}

asio::awaitable<LoadedPrefix> PrefixLoader::Load(const EngineIdentity& identity,
                                                 const PromptSegments& prompt, size_t count,
                                                 uint32_t slot, Duration timeout) {
  const LoadPriority::Hold hold(priority_);
  const TimePoint start = Now();
  const auto ahead = prefetched_.Find(std::span(prompt.refs).first(count));
  for (const PrefetchCache::Segment& segment : ahead) {
    const Duration left = start + timeout - Now();
    if (segment == nullptr || segment->ready || left <= Duration::zero()) continue;
    (void)co_await http::SleepFor(left, &segment->settled);
  }
  const double waited_ms = MsSince(start);
  const size_t bytes = identity.shape.PayloadBytes(kTokensPerBlock);
  Parts parts;
  parts.payloads.resize(count);
  for (size_t i = 0; i < count; ++i) {
    if (ahead[i] != nullptr && ahead[i]->ready && ahead[i]->bytes == bytes) {
      parts.payloads[i] = ahead[i]->span();
    } else {
      parts.missing.push_back(i);
    }
  }
  std::vector<Buffer> buffers = TakeBuffers(parts.missing.size(), bytes);
  for (size_t i = 0; i < buffers.size(); ++i) {
    parts.buffers.emplace_back(buffers[i].get(), bytes);
    parts.payloads[parts.missing[i]] = parts.buffers[i];
  }
  LoadedPrefix out = co_await RunBlocking(
      workers_, [&] { return LoadNow(identity, prompt, parts, slot, start + timeout - Now()); });
  GiveBuffers(std::move(buffers), bytes);
  out.waited_ms = waited_ms;
  out.transfer_ms += waited_ms;
  NotePrefetched(ahead, parts, start, &out);
  metrics_.transfer.Observe(out.transfer_ms / 1e3);
  metrics_.loaded_bytes.Add(out.bytes);
  if (out.segments > 0) metrics_.rebuild.Observe(out.rebuild_ms / 1e3);
  if (out.status.code() == StatusCode::kDeadline) NoteAnswer(true);
  co_return out;
}

void PrefixLoader::NotePrefetched(std::span<const PrefetchCache::Segment> ahead, const Parts& parts,
                                  TimePoint start, LoadedPrefix* loaded) {
  TimePoint last;
  for (size_t i = 0; i < loaded->segments; ++i) {
    const PrefetchCache::Segment& segment = ahead[i];
    if (segment == nullptr || parts.payloads[i].data() != segment->payload.get()) continue;
    segment->used = true;
    ++loaded->prefetched;
    loaded->spared_ms += segment->transfer_ms;
    last = std::max(last, segment->ready_at);
    metrics_.prefetch_used_bytes.Add(segment->bytes);
  }
  if (loaded->prefetched == 0) return;
  loaded->lead_ms = std::max(0.0, ToMilliseconds(start - last));
  metrics_.prefetch_saved.Observe(std::max(0.0, loaded->spared_ms - loaded->waited_ms) / 1e3);
}

GetResult PrefixLoader::GetNow(const EngineIdentity& identity, const PromptSegments& prompt,
                               std::span<const size_t> numbers,
                               std::span<const MutableByteSpan> buffers, Duration timeout) {
  std::vector<GetRequest> requests;
  for (size_t i = 0; i < numbers.size(); ++i) {
    requests.push_back({prompt.refs[numbers[i]], TokensOf(prompt, numbers[i]), buffers[i]});
  }
  return store_->Get(requests, identity.layout, timeout);
}

LoadedPrefix PrefixLoader::LoadNow(const EngineIdentity& identity, const PromptSegments& prompt,
                                   const Parts& parts, uint32_t slot, Duration timeout) {
  LoadedPrefix out;
  size_t usable = parts.payloads.size();
  TimePoint start = Now();
  if (!parts.missing.empty()) {
    GetResult got;
    if (timeout > Duration::zero()) {
      got = GetNow(identity, prompt, parts.missing, parts.buffers, timeout);
    } else {
      got.misses = {MissReason::kDeadline};
    }
    out.transfer_ms = MsSince(start);
    out.bytes = got.bytes;
    if (got.usable < parts.missing.size()) usable = parts.missing[got.usable];
    if (usable == 0) {
      const MissReason reason = FirstMiss(got);
      const std::string message = "load: " + std::string(MissReasonName(reason));
      out.status =
          reason == MissReason::kDeadline ? DeadlineError(message) : NotFoundError(message);
      return out;
    }
  }
  start = Now();
  out.status = WriteAndCheck(identity, std::span(prompt.tokens).first(usable * kTokensPerBlock),
                             std::span(parts.payloads).first(usable), slot);
  out.rebuild_ms = MsSince(start);
  if (out.status.ok()) out.segments = usable;
  return out;
}

// Reads the file as the engine will: it must not be the first to find a fault.
Status PrefixLoader::Check(const EngineIdentity& identity, std::span<const TokenId> tokens,
                           uint32_t slot) const {
  Result<MappedFile> file = folder_.Map(folder_.RestoreName(slot));
  if (!file.ok()) return file.status();
  Result<SlotFile> parsed = SlotFile::Parse(file->bytes());
  if (!parsed.ok()) return parsed.status();
  if (parsed->shape() != identity.shape || !std::ranges::equal(parsed->tokens(), tokens)) {
    return CorruptError("slot file: not what was written");
  }
  return OkStatus();
}

Status PrefixLoader::WriteAndCheck(const EngineIdentity& identity, std::span<const TokenId> tokens,
                                   std::span<const ByteSpan> payloads, uint32_t slot) {
  Result<int> fd = folder_.OpenRestoreFile(slot);
  if (!fd.ok()) return fd.status();
  Status status = WriteSlotFile(*fd, identity.shape, tokens, payloads, kTokensPerBlock);
  ::close(*fd);
  if (status.ok()) status = Check(identity, tokens, slot);
  if (!status.ok()) metrics_.Failure(CacheFailure::kJoinRefused).Add();
  return status;
}

std::vector<PrefixLoader::Buffer> PrefixLoader::TakeBuffers(size_t count, size_t bytes) {
  if (bytes != buffer_bytes_) {
    spare_.clear();
    buffer_bytes_ = bytes;
  }
  std::vector<Buffer> out;
  while (out.size() < count) {
    if (spare_.empty()) {
      out.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
    } else {
      out.push_back(std::move(spare_.back()));
      spare_.pop_back();
    }
  }
  return out;
}

void PrefixLoader::GiveBuffers(std::vector<Buffer> buffers, size_t bytes) {
  if (bytes != buffer_bytes_) return;  // the engine's shape changed meanwhile
  for (Buffer& buffer : buffers) {
    if ((spare_.size() + 1) * buffer_bytes_ <= kMaxSpareBytes) spare_.push_back(std::move(buffer));
  }
}

}  // namespace ember::agent
