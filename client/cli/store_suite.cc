#include "client/cli/store_suite.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "client/cli/bench_data.h"

namespace ember::cli {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr size_t kPrefixSegments = 256;
constexpr uint64_t kShift = 64;  // of each chain's payloads against those of the one before
constexpr uint64_t kShiftRoom = kMiB;
constexpr uint64_t kInPlaceBytes = 128 * kMiB;  // of each figure
constexpr Duration kInPlaceLease = seconds(10);

double OwnCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Of all its threads that live.
double CpuSecondsOf(pid_t process) {
  uint64_t nanoseconds = 0;
  std::error_code error;
  const auto folder = "/proc/" + std::to_string(process) + "/task";
  for (const auto& thread : std::filesystem::directory_iterator(folder, error)) {
    uint64_t of_thread = 0;
    std::ifstream(thread.path() / "schedstat") >> of_thread;
    nanoseconds += of_thread;
  }
  return static_cast<double>(nanoseconds) * 1e-9;
}

double ResidentBytesOf(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string word; status >> word;) {
    if (word != "VmRSS:") continue;
    double kilobytes = 0;
    status >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

}  // namespace

// Consecutive segments of one prefix.
struct StoreSuite::Chain {
  uint32_t number = 0;
  uint64_t segment_bytes = 0;
  std::vector<TokenId> tokens;
  std::vector<SegmentRef> refs;
  std::vector<PutRequest> puts;
};

struct StoreSuite::Usage {
  double wall = 0;
  double cpu = 0;  // of client and node
};

uint64_t StoreSuite::NodeBytes(const StoreSuiteOptions& options) {
  // What is read in place stays beside what was copied: eviction may choose either.
  const uint64_t in_place = options.shm ? 2 * kInPlaceBytes : 0;
  return options.buffer_bytes + options.buffer_bytes / 4 + 64 * kMiB + in_place;
}

StoreSuite::StoreSuite(StoreClient& client, StoreSuiteOptions options)
    : client_(client),
      options_(std::move(options)),
      source_(options_.buffer_bytes + kShiftRoom),
      target_(options_.buffer_bytes) {
  FillWithPattern(source_);
  const KvNamespace ns = BenchNamespace(RandomSalt());
  layout_ = DigestOf(ns.layout);
  root_ = RootOf(ns);
}

Result<std::vector<BenchFigure>> StoreSuite::Run() {
  if (options_.shm) {
    EMBER_RETURN_IF_ERROR(SharedCopies());
    EMBER_RETURN_IF_ERROR(InPlace("shm_in_place_1m", kMiB));
    EMBER_RETURN_IF_ERROR(InPlace("shm_in_place_4m", 4 * kMiB));
    return std::move(figures_);
  }
  EMBER_RETURN_IF_ERROR(Memory());
  EMBER_RETURN_IF_ERROR(Prefixes());
  EMBER_RETURN_IF_ERROR(Singles("64k", 64 << 10));
  EMBER_RETURN_IF_ERROR(Singles("1m", kMiB));
  EMBER_RETURN_IF_ERROR(Singles("4m", 4 * kMiB));
  EMBER_RETURN_IF_ERROR(Matches());
  return std::move(figures_);
}

bool StoreSuite::Wanted(std::initializer_list<const char*> names) const {
  return options_.only.empty() || std::ranges::any_of(names, [this](const char* name) {
           return options_.only.contains(name);
         });
}

size_t StoreSuite::Scaled(size_t count) const {
  return std::max<size_t>(1, static_cast<size_t>(static_cast<double>(count) * options_.scale));
}

void StoreSuite::Add(std::string name, std::string unit, double value) {
  if (Wanted({name.c_str()})) figures_.push_back({std::move(name), std::move(unit), value});
}

StoreSuite::Usage StoreSuite::UsageNow() const {
  return {BenchNow(), OwnCpuSeconds() + CpuSecondsOf(options_.node)};
}

StoreSuite::Chain StoreSuite::MakeChain(size_t segments, uint64_t segment_bytes) {
  Chain chain;
  chain.number = chains_++;
  chain.segment_bytes = segment_bytes;
  chain.tokens.assign(segments * kBenchTokensPerBlock, chain.number);
  HashChain hashes(root_, kBenchTokensPerBlock);
  hashes.Append(chain.tokens);
  chain.refs = CutSegments(hashes);
  for (size_t i = 0; i < segments; ++i) {
    const auto tokens =
        std::span(chain.tokens).subspan(i * kBenchTokensPerBlock, kBenchTokensPerBlock);
    chain.puts.push_back({chain.refs[i], tokens, Payload(chain, i), {}});
  }
  return chain;
}

// Chain after chain through the source, moved by some bytes so that no two keys have the same.
ByteSpan StoreSuite::Payload(const Chain& chain, size_t segment) const {
  const uint64_t slots = options_.buffer_bytes / chain.segment_bytes;
  const uint64_t slot = (chain.number * kPrefixSegments + segment) % slots;
  const uint64_t shift = chain.number * kShift % kShiftRoom;
  return ByteSpan(source_).subspan(slot * chain.segment_bytes + shift, chain.segment_bytes);
}

Status StoreSuite::Put(const Chain& chain) {
  for (const PutOutcome& outcome : client_.Put(chain.puts, layout_, options_.timeout)) {
    if (outcome.copies == 0) return outcome.status.WithContext("put");
  }
  return OkStatus();
}

// Into the target, one after the other from `place` on.
Status StoreSuite::Load(const Chain& chain, size_t first, size_t count, uint64_t place) {
  std::vector<GetRequest> requests;
  requests.reserve(count);
  for (size_t i = first; i < first + count; ++i) {
    const MutableByteSpan buffer = MutableByteSpan(target_).subspan(place, chain.segment_bytes);
    place += chain.segment_bytes;
    requests.push_back({chain.refs[i], chain.puts[i].tokens, buffer});
  }
  const GetResult got = client_.Get(requests, layout_, options_.timeout);
  return got.usable == count ? OkStatus() : NotFoundError("get: a segment was missed");
}

Status StoreSuite::Compare(const Chain& chain, size_t first, size_t count, uint64_t place) const {
  for (size_t i = first; i < first + count; ++i) {
    const ByteSpan loaded = ByteSpan(target_).subspan(place, chain.segment_bytes);
    place += chain.segment_bytes;
    if (!std::ranges::equal(loaded, Payload(chain, i))) {
      return CorruptError("a load brought other bytes than were put");
    }
  }
  return OkStatus();
}

// While the node is fresh: what it takes when empty, and per byte stored.
Status StoreSuite::Memory() {
  if (options_.node == 0 || !Wanted({"idle_rss_mib", "memory_overhead"})) return OkStatus();
  const double idle = ResidentBytesOf(options_.node);
  Add("idle_rss_mib", "MiB", idle / kMiB);
  constexpr size_t kChains = 3;
  for (size_t i = 0; i < kChains; ++i) {
    EMBER_RETURN_IF_ERROR(Put(MakeChain(kPrefixSegments, prefix_segment_bytes())));
  }
  const auto stored = static_cast<double>(kChains * kPrefixSegments * prefix_segment_bytes());
  Add("memory_overhead", "bytes/byte", (ResidentBytesOf(options_.node) - idle) / stored);
  return OkStatus();
}

Status StoreSuite::Prefixes() {
  if (!Wanted({"prefix_put", "prefix_load", "cpu_prefix_put", "cpu_prefix_load"})) {
    return OkStatus();
  }
  const uint64_t prefix_bytes = kPrefixSegments * prefix_segment_bytes();
  constexpr size_t kPlaces = 4;  // of the target
  // A node in service is full: each put takes the place of an older one.
  for (uint64_t filled = 0; filled < NodeBytes(options_); filled += prefix_bytes) {
    EMBER_RETURN_IF_ERROR(Put(MakeChain(kPrefixSegments, prefix_segment_bytes())));
  }
  std::vector<Chain> chains;
  const size_t puts = std::max(kPlaces, Scaled(4 * kPlaces));
  for (size_t i = 0; i < puts; ++i) {
    chains.push_back(MakeChain(kPrefixSegments, prefix_segment_bytes()));
  }
  const Usage before = UsageNow();
  for (const Chain& chain : chains) EMBER_RETURN_IF_ERROR(Put(chain));
  const Usage put = UsageNow();
  const double put_gb = static_cast<double>(puts * prefix_bytes) / 1e9;
  Add("prefix_put", "GB/s", put_gb / (put.wall - before.wall));
  Add("cpu_prefix_put", "CPU s/GB", (put.cpu - before.cpu) / put_gb);

  if (!Wanted({"prefix_load", "cpu_prefix_load"})) return OkStatus();
  chains.erase(chains.begin(), chains.end() - kPlaces);
  const size_t loads = Scaled(2 * kPlaces);
  const Usage start = UsageNow();
  for (size_t i = 0; i < loads; ++i) {
    const size_t place = i % kPlaces;
    EMBER_RETURN_IF_ERROR(Load(chains[place], 0, kPrefixSegments, place * prefix_bytes));
  }
  const Usage end = UsageNow();
  const double load_gb = static_cast<double>(loads * prefix_bytes) / 1e9;
  Add("prefix_load", "GB/s", load_gb / (end.wall - start.wall));
  Add("cpu_prefix_load", "CPU s/GB", (end.cpu - start.cpu) / load_gb);
  for (size_t place = 0; place < std::min(loads, kPlaces); ++place) {
    EMBER_RETURN_IF_ERROR(Compare(chains[place], 0, kPrefixSegments, place * prefix_bytes));
  }
  return OkStatus();
}

Status StoreSuite::Singles(const std::string& name, uint64_t size) {
  const std::string latency = "get_" + name + "_p50";
  const std::string cpu = "cpu_get_" + name;
  if (!Wanted({latency.c_str(), cpu.c_str()})) return OkStatus();
  // A quarter, so that all sizes fit in the node together: eviction may choose any.
  const Chain chain = MakeChain(options_.buffer_bytes / 4 / size, size);
  EMBER_RETURN_IF_ERROR(Put(chain));
  const size_t places = options_.buffer_bytes / size;
  const size_t calls = Scaled(std::min<size_t>(places * 2, 8192));
  std::vector<double> latencies;
  const Usage start = UsageNow();
  for (size_t i = 0; i < calls; ++i) {
    const double before = BenchNow();
    EMBER_RETURN_IF_ERROR(Load(chain, i % chain.refs.size(), 1, i % places * size));
    latencies.push_back((BenchNow() - before) * 1e6);
  }
  const Usage end = UsageNow();
  Add(latency, "us", Median(latencies));
  Add(cpu, "CPU s/GB", (end.cpu - start.cpu) / (static_cast<double>(calls * size) / 1e9));
  for (size_t i = calls - std::min(calls, places); i < calls; ++i) {
    EMBER_RETURN_IF_ERROR(Compare(chain, i % chain.refs.size(), 1, i % places * size));
  }
  return OkStatus();
}

Status StoreSuite::SharedCopies() {
  if (!Wanted({"shm_copy"})) return OkStatus();
  const uint64_t prefix_bytes = kPrefixSegments * prefix_segment_bytes();
  const size_t places = options_.buffer_bytes / prefix_bytes;
  std::vector<Chain> chains;
  for (size_t i = 0; i < places; ++i) {
    chains.push_back(MakeChain(kPrefixSegments, prefix_segment_bytes()));
    EMBER_RETURN_IF_ERROR(Put(chains.back()));
  }
  const size_t loads = Scaled(6 * places);
  double seconds = 0;
  // The first round maps pages, on both sides of the copy.
  for (size_t i = 0; i < places + loads; ++i) {
    const size_t place = i % places;
    const double start = BenchNow();
    EMBER_RETURN_IF_ERROR(Load(chains[place], 0, kPrefixSegments, place * prefix_bytes));
    if (i >= places) seconds += BenchNow() - start;
  }
  Add("shm_copy", "GB/s", static_cast<double>(loads * prefix_bytes) / 1e9 / seconds);
  for (size_t place = 0; place < places; ++place) {
    EMBER_RETURN_IF_ERROR(Compare(chains[place], 0, kPrefixSegments, place * prefix_bytes));
  }
  return OkStatus();
}

Status StoreSuite::InPlace(const std::string& name, uint64_t size) {
  if (!Wanted({name.c_str()})) return OkStatus();
  const Chain chain = MakeChain(kInPlaceBytes / size, size);
  EMBER_RETURN_IF_ERROR(Put(chain));
  std::vector<double> latencies;
  for (size_t i = 0; i < Scaled(8192); ++i) {
    const size_t segment = i % chain.refs.size();
    const InPlaceRequest request{chain.refs[segment], chain.puts[segment].tokens};
    const double start = BenchNow();
    const InPlaceResult got =
        client_.GetInPlace({&request, 1}, layout_, options_.timeout, kInPlaceLease);
    latencies.push_back((BenchNow() - start) * 1e6);
    if (!got.status.ok()) return got.status;
    if (got.usable != 1) return NotFoundError("get in place: a segment was missed");
    if (i >= chain.refs.size()) continue;
    if (!std::ranges::equal(got.segments[0].payload(), Payload(chain, segment))) {
      return CorruptError("a place held other bytes than were put");
    }
  }
  Add(name, "us", Median(latencies));
  return OkStatus();
}

Status StoreSuite::Matches() {
  if (!Wanted({"match_256"})) return OkStatus();
  const Chain chain = MakeChain(kPrefixSegments, 64 << 10);
  EMBER_RETURN_IF_ERROR(Put(chain));
  const size_t calls = Scaled(20'000);
  const double start = BenchNow();
  for (size_t i = 0; i < calls; ++i) {
    if (client_.Match(chain.refs, options_.timeout).usable != kPrefixSegments) {
      return NotFoundError("match: a segment was missed");
    }
  }
  Add("match_256", "calls/s", static_cast<double>(calls) / (BenchNow() - start));
  return OkStatus();
}

}  // namespace ember::cli
