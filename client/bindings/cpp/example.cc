// The C++ client in one page: stores a prompt's segments, finds them again, loads and checks them.
//
//   ember-example-cpp HOST:PORT            a node's data address, say of `ember up`
#include <cstdio>

#include "client/store_client/store_client.h"

namespace {

using ember::Bytes;

constexpr size_t kPayloadBytes = 256 << 10;
constexpr ember::Duration kTimeout = ember::seconds(5);

// Everything under which two blocks are interchangeable; an engine fills it from its configuration.
ember::KvNamespace Namespace() {
  ember::KvNamespace ns;
  ns.engine = "example";
  ns.engine_version = "1";
  ns.salt = "a secret of this deployment";
  ns.layout = {.tokens_per_block = 16,
               .layers = 4,
               .kv_heads = 2,
               .head_size = 64,
               .key_type = "f16",
               .value_type = "f16",
               .order = "example.v1"};
  return ns;
}

// What an engine would have computed for these tokens.
Bytes Payload(size_t segment) {
  Bytes bytes(kPayloadBytes);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i * 31 + segment * 7 + 1);
  return bytes;
}

int Run(const ember::io::Endpoint& node) {
  auto client = ember::StoreClient::Create({.seeds = {node}, .name = "example-cpp", .copies = 1});
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    return 1;
  }
  const ember::KvNamespace ns = Namespace();
  const ember::LayoutDigest layout = ember::DigestOf(ns.layout);
  std::vector<ember::TokenId> tokens;
  for (int i = 0; i < 1000; ++i) tokens.push_back(i * 17 % 32000);

  // Tokens to names.
  ember::HashChain chain(ember::RootOf(ns), ns.layout.tokens_per_block);
  chain.Append(tokens);
  const std::vector<ember::SegmentRef> segments = ember::CutSegments(chain);
  const auto tokens_of = [&](const ember::SegmentRef& ref) {
    const size_t per_block = ns.layout.tokens_per_block;
    return std::span(tokens).subspan(ref.first_block * per_block, ref.block_count * per_block);
  };

  std::vector<Bytes> payloads;
  std::vector<ember::PutRequest> puts;
  for (size_t i = 0; i < segments.size(); ++i) payloads.push_back(Payload(i));
  for (size_t i = 0; i < segments.size(); ++i) {
    puts.push_back({.ref = segments[i],
                    .tokens = tokens_of(segments[i]),
                    .payload = payloads[i],
                    .layer_offsets = {}});
  }
  size_t stored = 0;
  for (const ember::PutOutcome& outcome : (*client)->Put(puts, layout, kTimeout)) {
    stored += outcome.copies > 0;
    if (!outcome.status.ok()) std::printf("  %s\n", outcome.status.ToString().c_str());
  }
  std::printf("put: %zu of %zu segments stored\n", stored, segments.size());

  const ember::MatchResult match = (*client)->Match(segments, kTimeout);
  std::printf("match: %zu of %zu usable\n", match.usable, segments.size());

  std::vector<Bytes> buffers(match.usable);
  std::vector<ember::GetRequest> gets;
  for (size_t i = 0; i < match.usable; ++i) {
    buffers[i].resize(match.segments[i].payload_bytes);
    gets.push_back({.ref = segments[i], .tokens = tokens_of(segments[i]), .buffer = buffers[i]});
  }
  const ember::GetResult got = (*client)->Get(gets, layout, kTimeout);
  std::printf("get: %zu of %zu loaded and verified\n", got.usable, match.usable);
  for (size_t i = 0; i < got.usable; ++i) {
    if (buffers[i] != payloads[i]) {
      std::fprintf(stderr, "segment %zu: wrong bytes\n", i);
      return 1;
    }
  }
  return got.usable == segments.size() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s HOST:PORT\n", argv[0]);
    return 2;
  }
  const auto node = ember::io::Endpoint::Parse(argv[1]);
  if (!node.ok()) {
    std::fprintf(stderr, "%s\n", std::string(node.status().message()).c_str());
    return 2;
  }
  return Run(*node);
}
