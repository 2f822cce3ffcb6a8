#include "client/cli/disk_bench.h"

#include <signal.h>

#include <algorithm>
#include <thread>

#include "client/cli/bench_data.h"

namespace ember::cli {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr size_t kBatch = 64;  // segments a call
constexpr uint64_t kReadMemory = 256 * kMiB;

}  // namespace

// Consecutive segments of one prefix, 1 MiB each.
struct DiskBench::Chain {
  std::vector<TokenId> tokens;
  std::vector<SegmentRef> refs;
  std::vector<PutRequest> puts;
};

DiskBench::DiskBench(DiskBenchOptions options)
    : options_(std::move(options)), source_(kBatch * kMiB), target_(kBatch * kMiB) {
  FillWithPattern(source_);
  const KvNamespace ns = BenchNamespace(/*salt=*/"");
  layout_ = DigestOf(ns.layout);
  root_ = RootOf(ns);
}

Result<std::vector<BenchFigure>> DiskBench::Run() {
  EMBER_RETURN_IF_ERROR(Survive());
  EMBER_RETURN_IF_ERROR(Read());
  node_.reset();
  return figures_;
}

// Ready when it answers.
Status DiskBench::StartNode(uint64_t memory_bytes) {
  Result<io::Endpoint> address = FreeLoopbackEndpoint();
  if (!address.ok()) return address.status();
  const uint64_t disk = 2 * options_.read_bytes + 4 * options_.survivors * kMiB + (2ull << 30);
  std::vector<std::string> command = {options_.program,
                                      "--node-id=bench",
                                      "--listen=" + address->ToString(),
                                      "--grpc=off",
                                      "--admin=off",
                                      "--log-level=off",
                                      "--scrub-rate=0",
                                      "--memory=" + std::to_string(memory_bytes),
                                      "--data=" + options_.directory,
                                      "--disk=" + std::to_string(disk)};
  command.insert(command.end(), options_.node_flags.begin(), options_.node_flags.end());
  Result<ChildProcess> node = ChildProcess::Start(std::move(command), /*quiet=*/true);
  if (!node.ok()) return node.status();
  node_.emplace(*std::move(node));
  StoreClientOptions client;
  client.seeds = {*address};
  client.name = "disk-bench";
  client.copies = 1;
  client.back_off_min = client.back_off_max = milliseconds(5);
  Result<std::unique_ptr<StoreClient>> made = StoreClient::Create(std::move(client));
  if (!made.ok()) return made.status();
  client_ = *std::move(made);
  const double deadline = BenchNow() + 60;
  while (BenchNow() < deadline) {
    const auto nodes = client_->Nodes();
    if (std::ranges::any_of(nodes, &StoreClient::NodeState::reachable)) return OkStatus();
    if (auto ended = node_->Ended()) return UnavailableError("ember-store ended: " + *ended);
    std::this_thread::sleep_for(milliseconds(2));
  }
  return DeadlineError("ember-store did not come up");
}

void DiskBench::KillNode() {
  kill(node_->pid(), SIGKILL);
  (void)node_->Stop(seconds(10));
  node_.reset();
  client_.reset();
}

// Payloads overlap, moved by some bytes, so that no two segments have the same.
DiskBench::Chain DiskBench::MakeChain(uint32_t number, size_t segments) {
  Chain chain;
  chain.tokens.assign(segments * kBenchTokensPerBlock, number);
  HashChain hashes(root_, kBenchTokensPerBlock);
  hashes.Append(chain.tokens);
  chain.refs = CutSegments(hashes);
  for (size_t i = 0; i < segments; ++i) {
    const size_t offset = (i * 37 + number) * 4099 % (source_.size() - kMiB);
    const auto tokens =
        std::span(chain.tokens).subspan(i * kBenchTokensPerBlock, kBenchTokensPerBlock);
    chain.puts.push_back({chain.refs[i], tokens, ByteSpan(source_).subspan(offset, kMiB), {}});
  }
  return chain;
}

Result<size_t> DiskBench::Put(const Chain& chain) {
  size_t on_disk = 0;
  for (size_t first = 0; first < chain.puts.size(); first += kBatch) {
    const size_t count = std::min(kBatch, chain.puts.size() - first);
    for (const PutOutcome& outcome :
         client_->Put(std::span(chain.puts).subspan(first, count), layout_, options_.timeout,
                      {.ack = AckLevel::kDisk})) {
      if (outcome.copies == 0) return outcome.status.WithContext("put");
      on_disk += outcome.disk_copies;
    }
  }
  return on_disk;
}

DiskBench::Loaded DiskBench::Load(const Chain& chain) {
  Loaded out;
  for (size_t first = 0; first < chain.puts.size(); first += kBatch) {
    const size_t count = std::min(kBatch, chain.puts.size() - first);
    std::vector<GetRequest> requests;
    for (size_t i = 0; i < count; ++i) {
      requests.push_back({chain.refs[first + i], chain.puts[first + i].tokens,
                          MutableByteSpan(target_).subspan(i * kMiB, kMiB)});
    }
    const double start = BenchNow();
    const GetResult got = client_->Get(requests, layout_, options_.timeout);
    out.seconds += BenchNow() - start;
    for (size_t i = 0; i < count; ++i) {
      if (got.misses[i] != MissReason::kNone) continue;
      const bool same = std::ranges::equal(requests[i].buffer, chain.puts[first + i].payload);
      ++(same ? out.right : out.wrong);
    }
  }
  return out;
}

Status DiskBench::Survive() {
  EMBER_RETURN_IF_ERROR(StartNode(kReadMemory + 2 * options_.survivors * kMiB));
  const Chain chain = MakeChain(1, options_.survivors);
  Result<size_t> acknowledged = Put(chain);
  if (!acknowledged.ok()) return acknowledged.status();
  if (*acknowledged != options_.survivors) {
    return UnavailableError("only " + std::to_string(*acknowledged) + " puts reached the disk");
  }
  KillNode();
  EMBER_RETURN_IF_ERROR(StartNode(kReadMemory));
  const Loaded loaded = Load(chain);
  figures_.push_back({"restart_survivors", "segments", static_cast<double>(loaded.right)});
  figures_.push_back({"restart_wrong", "segments", static_cast<double>(loaded.wrong)});
  KillNode();
  return OkStatus();
}

Status DiskBench::Read() {
  EMBER_RETURN_IF_ERROR(StartNode(kReadMemory));
  const Chain chain = MakeChain(2, options_.read_bytes / kMiB);
  const double gigabytes = static_cast<double>(chain.puts.size() * kMiB) / 1e9;
  const double put_start = BenchNow();
  Result<size_t> put = Put(chain);
  if (!put.ok()) return put.status();
  figures_.push_back({"disk_put_1m", "GB/s", gigabytes / (BenchNow() - put_start)});
  for (int round = 0; round < options_.rounds; ++round) {
    KillNode();  // nothing is in memory then
    const double restart = BenchNow();
    EMBER_RETURN_IF_ERROR(StartNode(kReadMemory));
    figures_.push_back({"restart_ready", "s", BenchNow() - restart});
    const Loaded loaded = Load(chain);
    if (loaded.right < chain.puts.size()) {
      return CorruptError(std::to_string(loaded.right) + " of " +
                          std::to_string(chain.puts.size()) + " segments were read right, " +
                          std::to_string(loaded.wrong) + " wrong");
    }
    figures_.push_back({"disk_read_1m", "GB/s", gigabytes / loaded.seconds});
  }
  return OkStatus();
}

}  // namespace ember::cli
