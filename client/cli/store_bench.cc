#include "client/cli/store_bench.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "client/cli/bench_data.h"
#include "proto/wire/limits.h"

namespace ember::cli {
namespace {

constexpr size_t kWindows = 1 << 20;  // places of a payload in the pattern, 8 bytes apart
constexpr uint64_t kMaxBatches = 1 << 20;

}  // namespace

double BenchPhase::LatencyMs(double q) const {
  if (latencies_ms.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(q * static_cast<double>(latencies_ms.size())));
  return latencies_ms[std::clamp<size_t>(rank, 1, latencies_ms.size()) - 1];
}

Result<StoreBench> StoreBench::Make(StoreClient& client, StoreBenchOptions options) {
  if (options.segment_bytes == 0 || options.segment_bytes > wire::kMaxPayloadBytes) {
    return InvalidError("a segment has 1 byte to 64 MiB");
  }
  if (options.batch == 0 || options.threads == 0) return InvalidError("batch and threads: above 0");
  const uint64_t batch_bytes = options.segment_bytes * options.batch;
  if (options.working_set_bytes < batch_bytes) {
    return InvalidError("the working set is smaller than one batch");
  }
  if (options.working_set_bytes / batch_bytes > kMaxBatches) {
    return InvalidError("the working set has more than " + std::to_string(kMaxBatches) +
                        " batches");
  }
  return StoreBench(client, options);
}

StoreBench::StoreBench(StoreClient& client, StoreBenchOptions options)
    : client_(client), options_(options), pattern_(options.segment_bytes + kWindows * 8) {
  FillWithPattern(pattern_);
  const KvNamespace ns = BenchNamespace(RandomSalt());
  layout_ = DigestOf(ns.layout);
  const NamespaceRoot root = RootOf(ns);
  batches_.resize(options.working_set_bytes / (options.segment_bytes * options.batch));
  for (size_t b = 0; b < batches_.size(); ++b) {
    Batch& batch = batches_[b];
    batch.tokens.assign(size_t{options.batch} * kBenchTokensPerBlock, static_cast<TokenId>(b));
    HashChain chain(root, kBenchTokensPerBlock);
    chain.Append(batch.tokens);
    batch.refs = CutSegments(chain);
  }
}

std::vector<BenchPhase> StoreBench::Run() {
  return {
      RunPhase("put", true, [this](const Batch& batch, BenchPhase* p) { Put(batch, p); }),
      RunPhase("match", false, [this](const Batch& batch, BenchPhase* p) { Match(batch, p); }),
      RunPhase("get", false, [this](const Batch& batch, BenchPhase* p) { Get(batch, p); }),
  };
}

BenchPhase StoreBench::RunPhase(const std::string& name, bool once, const Call& call) const {
  std::atomic<size_t> next = 0;
  std::vector<BenchPhase> parts(options_.threads);
  std::vector<std::thread> threads;
  const TimePoint start = std::chrono::steady_clock::now();
  const TimePoint end = start + (once ? Duration::max() / 2 : options_.duration);
  for (BenchPhase& part : parts) {
    threads.emplace_back([&] {
      while (std::chrono::steady_clock::now() < end) {
        const size_t number = next.fetch_add(1);
        if (once && number >= batches_.size()) return;
        call(batches_[number % batches_.size()], &part);
        ++part.calls;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  BenchPhase whole;
  whole.name = name;
  whole.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const BenchPhase& part : parts) {
    whole.calls += part.calls;
    whole.segments += part.segments;
    whole.bytes += part.bytes;
    whole.missed += part.missed;
    whole.wrong += part.wrong;
    whole.latencies_ms.insert(whole.latencies_ms.end(), part.latencies_ms.begin(),
                              part.latencies_ms.end());
  }
  std::ranges::sort(whole.latencies_ms);
  return whole;
}

void StoreBench::Put(const Batch& batch, BenchPhase* phase) const {
  std::vector<PutRequest> requests;
  for (size_t i = 0; i < batch.refs.size(); ++i) {
    requests.push_back({batch.refs[i], Tokens(batch, i), Payload(batch.refs[i]), {}});
  }
  const TimePoint start = std::chrono::steady_clock::now();
  const auto outcomes = client_.Put(requests, layout_, options_.timeout);
  phase->latencies_ms.push_back(ToMilliseconds(std::chrono::steady_clock::now() - start));
  for (const PutOutcome& outcome : outcomes) {
    if (outcome.copies > 0) {
      ++phase->segments;
      phase->bytes += options_.segment_bytes;
    } else {
      ++phase->missed;
    }
  }
}

void StoreBench::Match(const Batch& batch, BenchPhase* phase) const {
  const TimePoint start = std::chrono::steady_clock::now();
  const MatchResult match = client_.Match(batch.refs, options_.timeout);
  phase->latencies_ms.push_back(ToMilliseconds(std::chrono::steady_clock::now() - start));
  phase->segments += match.usable;
  phase->missed += batch.refs.size() - match.usable;
}

void StoreBench::Get(const Batch& batch, BenchPhase* phase) const {
  // One for each thread: making it anew each time would measure page faults.
  thread_local Bytes memory;
  memory.resize(batch.refs.size() * options_.segment_bytes);
  std::vector<GetRequest> requests;
  for (size_t i = 0; i < batch.refs.size(); ++i) {
    requests.push_back(
        {batch.refs[i], Tokens(batch, i),
         MutableByteSpan(memory).subspan(i * options_.segment_bytes, options_.segment_bytes)});
  }
  const TimePoint start = std::chrono::steady_clock::now();
  const GetResult got = client_.Get(requests, layout_, options_.timeout);
  phase->latencies_ms.push_back(ToMilliseconds(std::chrono::steady_clock::now() - start));
  for (size_t i = 0; i < requests.size(); ++i) {
    if (got.misses[i] != MissReason::kNone) {
      ++phase->missed;
      continue;
    }
    ++phase->segments;
    if (!std::ranges::equal(requests[i].buffer, Payload(batch.refs[i]))) ++phase->wrong;
  }
  phase->bytes += got.bytes;
}

ByteSpan StoreBench::Payload(const SegmentRef& ref) const {
  const size_t window = std::hash<BlockKey>()(ref.key) % kWindows;
  return ByteSpan(pattern_).subspan(window * 8, options_.segment_bytes);
}

std::span<const TokenId> StoreBench::Tokens(const Batch& batch, size_t segment) const {
  return std::span(batch.tokens).subspan(segment * kBenchTokensPerBlock, kBenchTokensPerBlock);
}

}  // namespace ember::cli
