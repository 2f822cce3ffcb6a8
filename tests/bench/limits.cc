// What this machine itself can do with bytes, in plain system calls: the yardsticks of
// tests/bench/run. Nothing of ours is in the way: blocking sockets, one thread a side, no framing,
// no checksum.
//
//   limits NAME BLOCK_BYTES TOTAL_BYTES    prints one JSON line
//
//   memcpy      copies, 1 GiB to 1 GiB, BLOCK at a time
//   stream-tcp  one side writes, the other reads, over loopback
//   rr-tcp      64 bytes ask, BLOCK bytes answer, one after the other
//   batch-tcp   64 bytes ask, 256 BLOCKs answer
//   memfd       memory shared once; per block a request and its place; copied out
//   memfd-in-place  the same, used where it lies
//
// Each side's memory is a ring of 512 MiB, so that it is not in the cache.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr size_t kRing = size_t{512} << 20;
constexpr size_t kGiB = size_t{1} << 30;
constexpr size_t kBatch = 256;
using Request = std::array<char, 64>;

void Require(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::exit(1);
}

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Present pages of no pattern that anything could shorten.
char* Memory(size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  Require(memory != MAP_FAILED, "mmap");
  uint64_t state = 88172645463325252u;
  for (size_t i = 0; i + 8 <= size; i += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(static_cast<char*>(memory) + i, &state, sizeof state);
  }
  return static_cast<char*>(memory);
}

// The next `size` bytes of a ring.
class Ring {
 public:
  explicit Ring(char* memory, size_t length = kRing) : memory_(memory), length_(length) {}
  char* Next(size_t size) {
    if (at_ + size > length_) at_ = 0;
    return memory_ + std::exchange(at_, at_ + size);
  }

 private:
  char* const memory_;
  const size_t length_;
  size_t at_ = 0;
};

void ReadAll(int fd, void* out, size_t size) {
  for (auto* at = static_cast<char*>(out); size > 0;) {
    const ssize_t n = read(fd, at, size);
    Require(n > 0, "read");
    at += n;
    size -= static_cast<size_t>(n);
  }
}

void WriteAll(int fd, const void* bytes, size_t size) {
  for (const auto* at = static_cast<const char*>(bytes); size > 0;) {
    const ssize_t n = write(fd, at, size);
    Require(n > 0, "write");
    at += n;
    size -= static_cast<size_t>(n);
  }
}

struct Pair {
  int client = -1;
  int server = -1;
};

Pair TcpPair() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  Require(bind(listener, generic, length) == 0 && listen(listener, 1) == 0 &&
              getsockname(listener, generic, &length) == 0,
          "listen");
  Pair pair{.client = socket(AF_INET, SOCK_STREAM, 0)};
  Require(connect(pair.client, generic, length) == 0, "connect");
  pair.server = accept(listener, nullptr, nullptr);
  Require(pair.server >= 0, "accept");
  close(listener);
  for (int fd : {pair.client, pair.server}) {
    const int on = 1;
    Require(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
  }
  return pair;
}

// Runs `server` in a process of its own; returns when it says that it is ready.
pid_t Fork(const std::function<void(int ready)>& server) {
  int ready[2];
  Require(pipe(ready) == 0, "pipe");
  const pid_t child = fork();
  Require(child >= 0, "fork");
  if (child == 0) {
    server(ready[1]);
    _exit(0);
  }
  char byte = 0;
  ReadAll(ready[0], &byte, 1);
  return child;
}

void Join(pid_t child) {
  int status = 0;
  Require(waitpid(child, &status, 0) == child && status == 0, "the other side");
}

struct Result {
  double seconds = 0;
  size_t bytes = 0;
  std::vector<double> latencies;  // seconds
  double client_cpu = 0;
  double server_cpu = 0;
};

Result MemoryCopy(size_t block, size_t total) {
  const char* from = Memory(kGiB);
  char* to = Memory(kGiB);
  std::memcpy(to, from, kGiB);
  Result result;
  const double start = Now();
  for (; result.bytes < total; result.bytes += block) {
    const size_t at = result.bytes % (kGiB / block * block);
    std::memcpy(to + at, from + at, block);
  }
  result.seconds = Now() - start;
  return result;
}

Result StreamTcp(size_t block, size_t total) {
  total -= total % block;
  const Pair pair = TcpPair();
  char* source = Memory(kRing);
  const pid_t child = Fork([&](int ready) {
    close(pair.client);
    char* target = Memory(kRing);
    WriteAll(ready, "x", 1);
    for (size_t got = 0; got < total;) {
      const size_t at = got % kRing;
      const ssize_t n = read(pair.server, target + at, std::min(block, kRing - at));
      Require(n > 0, "read");
      got += static_cast<size_t>(n);
    }
    WriteAll(pair.server, "x", 1);
  });
  Ring ring(source);
  Result result;
  const double start = Now();
  for (; result.bytes < total; result.bytes += block)
    WriteAll(pair.client, ring.Next(block), block);
  char byte = 0;
  ReadAll(pair.client, &byte, 1);
  result.seconds = Now() - start;
  Join(child);
  return result;
}

// `blocks` a request.
Result RequestReply(size_t block, size_t total, size_t blocks) {
  const Pair pair = TcpPair();
  const size_t calls = std::max<size_t>(1, total / (block * blocks));
  char* memory = Memory(kRing);
  const pid_t child = Fork([&](int ready) {
    close(pair.client);
    Ring source(memory);
    Request request;
    WriteAll(ready, "x", 1);
    const double cpu = CpuSeconds();
    for (size_t i = 0; i < calls; ++i) {
      ReadAll(pair.server, request.data(), request.size());
      for (size_t k = 0; k < blocks; ++k) WriteAll(pair.server, source.Next(block), block);
    }
    const double used = CpuSeconds() - cpu;
    WriteAll(pair.server, &used, sizeof used);
  });
  char* target_memory = Memory(kRing);
  Ring target(target_memory);
  const Request request{};
  Result result{.bytes = calls * block * blocks};
  const double cpu = CpuSeconds();
  const double start = Now();
  for (size_t i = 0; i < calls; ++i) {
    const double before = Now();
    WriteAll(pair.client, request.data(), request.size());
    for (size_t k = 0; k < blocks; ++k) ReadAll(pair.client, target.Next(block), block);
    result.latencies.push_back(Now() - before);
  }
  result.seconds = Now() - start;
  result.client_cpu = CpuSeconds() - cpu;
  ReadAll(pair.client, &result.server_cpu, sizeof result.server_cpu);
  Join(child);
  return result;
}

struct Place {
  uint64_t offset = 0;
  uint64_t length = 0;
};

Result SharedMemory(size_t block, size_t total, bool copy) {
  int sockets[2];
  Require(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "socketpair");
  const int fd = memfd_create("limits", MFD_CLOEXEC);
  Require(fd >= 0 && ftruncate(fd, kGiB) == 0, "memfd");
  const size_t calls = std::max<size_t>(1, total / block);
  const pid_t child = Fork([&](int ready) {
    close(sockets[0]);
    void* memory = mmap(nullptr, kGiB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    Require(memory != MAP_FAILED, "mmap");
    std::memset(memory, 7, kGiB);
    Ring ring(static_cast<char*>(memory), kGiB);
    Request request;
    WriteAll(ready, "x", 1);
    for (size_t i = 0; i < calls; ++i) {
      ReadAll(sockets[1], request.data(), request.size());
      const auto offset = static_cast<uint64_t>(ring.Next(block) - static_cast<char*>(memory));
      const Place place{offset, block};
      WriteAll(sockets[1], &place, sizeof place);
    }
  });
  void* shared = mmap(nullptr, kGiB, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
  Require(shared != MAP_FAILED, "mmap");
  Ring target(Memory(kRing));
  const Request request{};
  Result result{.bytes = calls * block};
  const double start = Now();
  for (size_t i = 0; i < calls; ++i) {
    const double before = Now();
    WriteAll(sockets[0], request.data(), request.size());
    Place place;
    ReadAll(sockets[0], &place, sizeof place);
    if (copy) std::memcpy(target.Next(block), static_cast<char*>(shared) + place.offset, block);
    result.latencies.push_back(Now() - before);
  }
  result.seconds = Now() - start;
  Join(child);
  return result;
}

double Quantile(std::vector<double>* sorted, double q) {
  if (sorted->empty()) return 0;
  return (*sorted)[static_cast<size_t>(q * static_cast<double>(sorted->size() - 1))];
}

void Print(const char* name, size_t block, Result result) {
  std::ranges::sort(result.latencies);
  const double gigabytes = static_cast<double>(result.bytes) / 1e9;
  std::printf(
      "{\"limit\":\"%s\",\"block\":%zu,\"gb_per_s\":%.3f,\"p50_us\":%.1f,\"p99_us\":%.1f,"
      "\"cpu_s_per_gb\":%.3f}\n",
      name, block, gigabytes / result.seconds, Quantile(&result.latencies, 0.5) * 1e6,
      Quantile(&result.latencies, 0.99) * 1e6, (result.client_cpu + result.server_cpu) / gigabytes);
}

using Limit = std::function<Result(size_t block, size_t total)>;
const std::map<std::string, Limit>& Limits() {
  static const std::map<std::string, Limit> limits = {
      {"memcpy", MemoryCopy},
      {"stream-tcp", StreamTcp},
      {"rr-tcp", [](size_t block, size_t total) { return RequestReply(block, total, 1); }},
      {"batch-tcp", [](size_t block, size_t total) { return RequestReply(block, total, kBatch); }},
      {"memfd", [](size_t block, size_t total) { return SharedMemory(block, total, true); }},
      {"memfd-in-place",
       [](size_t block, size_t total) { return SharedMemory(block, total, false); }},
  };
  return limits;
}

}  // namespace

int main(int argc, char** argv) {
  const auto limit = argc == 4 ? Limits().find(argv[1]) : Limits().end();
  const size_t block = argc == 4 ? std::strtoull(argv[2], nullptr, 10) : 0;
  const size_t total = argc == 4 ? std::strtoull(argv[3], nullptr, 10) : 0;
  if (limit == Limits().end() || block == 0 || block > kRing || total < block) {
    std::fprintf(stderr, "usage: limits NAME BLOCK_BYTES TOTAL_BYTES\nNAME:");
    for (const auto& [name, function] : Limits()) std::fprintf(stderr, " %s", name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  Print(argv[1], block, limit->second(block, total));
  return 0;
}
