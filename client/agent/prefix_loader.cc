#include "client/agent/prefix_loader.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "client/agent/slot_file.h"

namespace ember::agent {

namespace asio = boost::asio;

namespace {
constexpr size_t kWorkers = 4;
constexpr Duration kMatchTimeout = seconds(1);
constexpr Duration kPause = seconds(2);
constexpr size_t kMaxSpareBytes = 128u << 20;  // buffers kept between loads

TimePoint Now() { return std::chrono::steady_clock::now(); }
double MsSince(TimePoint start) { return ToMilliseconds(Now() - start); }

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
}  // namespace

PrefixLoader::PrefixLoader(StoreClient* store, const SlotFolder& folder, AgentMetrics& metrics)
    : store_(store), folder_(folder), metrics_(metrics), workers_(kWorkers) {}

void PrefixLoader::Stop() { workers_.join(); }

void PrefixLoader::NoteAnswer(bool timed_out) {
  if (!timed_out) return;
  metrics_.Failure(CacheFailure::kStoreTimeout).Add();
  paused_until_ = Now() + kPause;
}

asio::awaitable<StoreMatch> PrefixLoader::Match(const EngineIdentity& identity,
                                                const PromptSegments& prompt, size_t limit) {
  StoreMatch out;
  const size_t count = std::min(limit, prompt.refs.size());
  if (store_ == nullptr || count == 0 || Now() < paused_until_) co_return out;
  const LoadPriority::Hold hold(priority_);
  const TimePoint start = Now();
  const MatchResult match = co_await RunBlocking(
      workers_, [&] { return store_->Match(std::span(prompt.refs).first(count), kMatchTimeout); });
  out.match_ms = MsSince(start);
  metrics_.match.Observe(out.match_ms / 1e3);
  // Whatever the store says it has must be of the one size that our payloads have.
  const uint64_t want = identity.shape.PayloadBytes(kTokensPerBlock);
  const size_t usable = std::min(match.usable, std::min(count, match.segments.size()));
  while (out.segments < usable && match.segments[out.segments].payload_bytes == want)
    ++out.segments;
  if (out.segments < match.segments.size()) {
    const MissReason reason = match.segments[out.segments].miss;
    metrics_.misses[static_cast<size_t>(reason)]->Add();
    NoteAnswer(reason == MissReason::kDeadline);
  }
  co_return out;
}

asio::awaitable<LoadedPrefix> PrefixLoader::Load(const EngineIdentity& identity,
                                                 const PromptSegments& prompt, size_t count,
                                                 uint32_t slot, Duration timeout) {
  const LoadPriority::Hold hold(priority_);
  const size_t bytes = identity.shape.PayloadBytes(kTokensPerBlock);
  std::vector<Buffer> buffers = TakeBuffers(count, bytes);
  std::vector<MutableByteSpan> spans;
  for (const Buffer& buffer : buffers) spans.emplace_back(buffer.get(), bytes);
  LoadedPrefix out = co_await RunBlocking(
      workers_, [&] { return LoadNow(identity, prompt, spans, slot, timeout); });
  GiveBuffers(std::move(buffers), bytes);
  metrics_.transfer.Observe(out.transfer_ms / 1e3);
  metrics_.loaded_bytes.Add(out.bytes);
  if (out.segments > 0) metrics_.rebuild.Observe(out.rebuild_ms / 1e3);
  if (out.status.code() == StatusCode::kDeadline) NoteAnswer(true);
  co_return out;
}

LoadedPrefix PrefixLoader::LoadNow(const EngineIdentity& identity, const PromptSegments& prompt,
                                   std::span<const MutableByteSpan> buffers, uint32_t slot,
                                   Duration timeout) {
  LoadedPrefix out;
  TimePoint start = Now();
  std::vector<GetRequest> requests;
  for (size_t i = 0; i < buffers.size(); ++i) {
    requests.push_back({prompt.refs[i], TokensOf(prompt, i), buffers[i]});
  }
  const GetResult got = store_->Get(requests, identity.layout, timeout);
  out.transfer_ms = MsSince(start);
  out.bytes = got.bytes;
  const size_t usable = std::min(got.usable, buffers.size());
  if (usable == 0) {
    const MissReason reason = got.misses.empty() ? MissReason::kLostNode : got.misses.front();
    const std::string message = "load: " + std::string(MissReasonName(reason));
    out.status = reason == MissReason::kDeadline ? DeadlineError(message) : NotFoundError(message);
    return out;
  }
  start = Now();
  const std::vector<ByteSpan> payloads(buffers.begin(), buffers.begin() + usable);
  out.status = WriteAndCheck(identity, std::span(prompt.tokens).first(usable * kTokensPerBlock),
                             payloads, slot);
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
