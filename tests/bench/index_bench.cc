// ember_index_bench WORKERS BLOCKS: what PrefixIndex costs in memory and time, as JSON lines of the
// same form as the peers' bench of the same work prints. One thread. Memory is what operator new
// has handed out and not got back, so it contains all that the index allocates.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>

#include "router/index/prefix_index.h"
#include "tests/bench/index_workload.h"

namespace {

int64_t live_bytes = 0;

void* Counted(void* memory) {
  if (memory == nullptr) std::abort();
  live_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  return memory;
}

void Discount(void* memory) {
  live_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) { return Counted(std::malloc(size)); }
void* operator new(size_t size, std::align_val_t align) {
  const auto to = static_cast<size_t>(align);
  return Counted(std::aligned_alloc(to, (size + to - 1) / to * to));
}
void operator delete(void* memory) noexcept { Discount(memory); }
void operator delete(void* memory, size_t) noexcept { Discount(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { Discount(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { Discount(memory); }

namespace ember::router {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPasses = 3;
constexpr size_t kMaxBytes = size_t{64} << 20;  // --index-mib by default

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Bench {
  std::string name;
  std::vector<HolderId> holders;

  explicit Bench(std::string name_in) : name(std::move(name_in)) {}

  std::unique_ptr<PrefixIndex> Filled(const std::string& op, size_t workers, size_t blocks,
                                      const std::vector<StoredEvent>& events) {
    const int64_t before = live_bytes;
    auto index =
        std::make_unique<PrefixIndex>(PrefixIndexOptions{.max_bytes = kMaxBytes, .seed = 0x5eed});
    holders.clear();
    for (size_t w = 0; w < workers; ++w) {
      holders.push_back(index->AddHolder(HolderKind::kReplica));
    }
    const Clock::time_point start = Clock::now();
    for (const StoredEvent& e : events) {
      index->Store(holders[e.worker], HolderTier::kDevice, e.parent, e.keys, e.hashes);
    }
    const double seconds = SecondsSince(start);
    const auto bytes = static_cast<double>(live_bytes - before);
    fmt::print(R"({{"index":"{}","op":"{}","blocks":{},"events":{},"sec":{:.3f},)"
               R"("Mblocks_s":{:.3f},"bytes_per_block":{:.1f},"own_count":{:.1f}}})"
               "\n",
               name, op, blocks, events.size(), seconds,
               static_cast<double>(blocks) / seconds / 1e6, bytes / static_cast<double>(blocks),
               static_cast<double>(index->bytes()) / static_cast<double>(blocks));
    return index;
  }

  void Find(const PrefixIndex& index, const std::string& op, const std::vector<BlockChain>& asked) {
    std::vector<int64_t> times;
    times.reserve(asked.size() * kPasses);
    size_t found = 0;
    for (int pass = 0; pass < kPasses; ++pass) {
      for (const BlockChain& chain : asked) {
        const Clock::time_point start = Clock::now();
        found += index.Lookup(chain).holders.size();
        times.push_back((Clock::now() - start).count());
      }
    }
    std::sort(times.begin(), times.end());
    fmt::print(R"({{"index":"{}","op":"find {}","p50_ns":{},"p99_ns":{},"workers_found":{:.2f}}})"
               "\n",
               name, op, times[times.size() / 2], times[times.size() * 99 / 100],
               static_cast<double>(found) / static_cast<double>(times.size()));
  }

  void Remove(PrefixIndex& index, const std::vector<RemovedEvent>& removals) {
    size_t blocks = 0;
    for (const RemovedEvent& removal : removals) blocks += removal.keys.size();
    const Clock::time_point start = Clock::now();
    for (const RemovedEvent& removal : removals) {
      index.Remove(holders[removal.worker], HolderTier::kDevice, removal.keys);
    }
    fmt::print(R"({{"index":"{}","op":"remove","Mblocks_s":{:.3f}}})"
               "\n",
               name, static_cast<double>(blocks) / SecondsSince(start) / 1e6);
  }

  // One worker after the other leaves; what is swept up later is not counted.
  void Leave(PrefixIndex& index) {
    std::vector<double> times;
    for (const HolderId holder : holders) {
      const Clock::time_point start = Clock::now();
      index.RemoveHolder(holder);
      times.push_back(SecondsSince(start) * 1e6);
    }
    std::sort(times.begin(), times.end());
    fmt::print(R"({{"index":"{}","op":"leave","p50_us":{:.1f},"max_us":{:.1f}}})"
               "\n",
               name, times[times.size() / 2], times.back());
  }
};

void Run(size_t workers, size_t blocks) {
  const IndexWorkload work = IndexWorkload::Of(blocks, static_cast<uint32_t>(workers));
  Bench bench(fmt::format("ember/{}w/{}k", workers, blocks / 1000));
  {
    const auto index = bench.Filled("store", workers, work.blocks, work.events);
    bench.Find(*index, "hit128", work.hits);
    bench.Find(*index, "shared32of128", work.shared);
    bench.Find(*index, "miss128", work.misses);
    bench.Remove(*index, work.removals);
    bench.Leave(*index);
  }
  const std::vector<StoredEvent> single = work.Interleaved();
  const auto index = bench.Filled("store interleaved", workers, work.blocks, single);
  bench.Find(*index, "hit128 interleaved", work.hits);
}

}  // namespace
}  // namespace ember::router

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: {} WORKERS BLOCKS\n", argv[0]);
    return 2;
  }
  ember::router::Run(std::strtoul(argv[1], nullptr, 10), std::strtoul(argv[2], nullptr, 10));
}
