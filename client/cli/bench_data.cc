#include "client/cli/bench_data.h"

#include "client/io/socket.h"
#include "proto/base/random.h"

namespace ember::cli {

KvNamespace BenchNamespace(std::string salt) {
  KvNamespace ns;
  ns.engine = "bench";
  ns.layout = {.tokens_per_block = kBenchTokensPerBlock,
               .layers = 1,
               .kv_heads = 1,
               .head_size = 1,
               .key_type = "u8",
               .value_type = "u8",
               .order = "bench.v1"};
  ns.salt = std::move(salt);
  return ns;
}

std::string RandomSalt() { return std::to_string(SystemRandom().Next()); }

void FillWithPattern(MutableByteSpan out) {
  SeededRandom random(1);
  for (size_t i = 0; i + 8 <= out.size(); i += 8) {
    const uint64_t word = random.Next();
    std::memcpy(out.data() + i, &word, sizeof word);
  }
}

Result<io::Endpoint> FreeLoopbackEndpoint() {
  Result<io::FileDescriptor> taken = io::OpenListenSocket({"127.0.0.1", 0}, 0);
  if (!taken.ok()) return taken.status();
  return io::Endpoint{"127.0.0.1", io::LocalPort(taken->get())};
}

}  // namespace ember::cli
