// The golden vectors, which an independent Python script computes too: the scheme can't drift.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "proto/model/segment.h"
#include "proto/wire/frame.h"

namespace ember {
namespace {

using nlohmann::json;

json LoadVectors() {
  std::ifstream file("tests/vectors/identity.json");
  EXPECT_TRUE(file) << "run from the source root";
  return json::parse(file);
}

std::string Text(const json& j) { return j.get<std::string>(); }

template <size_t N>
std::array<std::byte, N> Hex(const json& j) {
  std::array<std::byte, N> out{};
  EXPECT_TRUE(FromHex(j.get<std::string>(), out).ok());
  return out;
}

Bytes HexBytes(const json& j) {
  const auto text = j.get<std::string>();
  Bytes out(text.size() / 2);
  EXPECT_TRUE(FromHex(text, out).ok());
  return out;
}

KvNamespace NamespaceOf(const json& j) {
  KvNamespace ns;
  ns.engine = j["engine"];
  ns.engine_version = j["engine_version"];
  ns.context_type = j["context_type"];
  ns.weights_digest = Hex<32>(j["weights_digest"]);
  ns.tokenizer_digest = Hex<32>(j["tokenizer_digest"]);
  ns.adapter_digest = Hex<32>(j["adapter_digest"]);
  ns.tenant = j["tenant"];
  ns.salt = j["salt"];
  ns.extra = j["extra"].get<std::map<std::string, std::string>>();
  const json& l = j["layout"];
  ns.layout = {.tokens_per_block = l["tokens_per_block"],
               .layers = l["layers"],
               .kv_heads = l["kv_heads"],
               .head_size = l["head_size"],
               .key_type = l["key_type"],
               .value_type = l["value_type"],
               .order = l["order"],
               .group = static_cast<CacheGroup>(l["group"].get<int>()),
               .rank = l["rank"],
               .rank_count = l["rank_count"]};
  return ns;
}

SegmentHeader FirstSegmentHeader(const KvNamespace& ns, const SegmentRef& ref,
                                 const std::vector<TokenId>& tokens) {
  Bytes payload(1000);
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i % 251);
  SegmentHeader h;
  h.key = ref.key;
  h.placement = ref.placement;
  h.first_block = ref.first_block;
  h.block_count = ref.block_count;
  h.proof = ref.proof;
  h.tokens.assign(tokens.begin(), tokens.begin() + ref.block_count * ns.layout.tokens_per_block);
  h.layout = DigestOf(ns.layout);
  h.rank = ns.layout.rank;
  h.rank_count = ns.layout.rank_count;
  h.payload_length = payload.size();
  h.checksum = Xxh3Of(payload);
  h.layer_offsets = {0, 128};
  h.writer = "vectors";
  h.generation = {7, 9};
  h.tenant = ns.tenant;
  return h;
}

TEST(Vectors, IdentityChainAndSegmentsMatchTheGoldenFile) {
  const json vectors = LoadVectors();
  ASSERT_EQ(vectors["format"], 1);
  for (const json& c : vectors["cases"]) {
    SCOPED_TRACE(c["name"].get<std::string>());
    const json& expect = c["expect"];
    const KvNamespace ns = NamespaceOf(c["namespace"]);
    EXPECT_EQ(ToHex(CanonicalRecord(ns)), Text(expect["record"]));
    EXPECT_EQ(ToHex(RootOf(ns).id.bytes), Text(expect["namespace_id"]));
    EXPECT_EQ(ToHex(DigestOf(ns.layout)), Text(expect["layout_digest"]));

    const auto tokens = c["tokens"].get<std::vector<TokenId>>();
    std::vector<TokenExtra> extras;
    for (const json& e : c["extras"]) {
      extras.push_back({e["kind"].get<uint8_t>(), e["offset"], HexBytes(e["digest"])});
    }
    HashChain chain(RootOf(ns), ns.layout.tokens_per_block);
    chain.Append(tokens, extras);
    ASSERT_EQ(chain.blocks().size(), expect["blocks"].size());
    for (size_t i = 0; i < chain.blocks().size(); ++i) {
      EXPECT_EQ(ToHex(chain.blocks()[i].hash.bytes), Text(expect["blocks"][i]["hash"]));
      EXPECT_EQ(ToHex(chain.blocks()[i].proof), Text(expect["blocks"][i]["proof"]));
    }
    const NamespaceRoot root = RootOf(ns);
    const auto plain = HashBlocks(root.id, root.seed, ns.layout.tokens_per_block, tokens, extras);
    ASSERT_EQ(plain.size(), expect["blocks"].size());
    for (size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(ToHex(plain[i].bytes), Text(expect["blocks"][i]["hash"]));
    }
    const std::vector<SegmentRef> segments = CutSegments(chain);
    ASSERT_EQ(segments.size(), expect["segments"].size());
    for (size_t i = 0; i < segments.size(); ++i) {
      EXPECT_EQ(segments[i].first_block + segments[i].block_count - 1,
                expect["segments"][i]["last_block"].get<size_t>());
      EXPECT_EQ(ToHex(segments[i].key.hash.bytes), Text(expect["segments"][i]["hash"]));
      EXPECT_EQ(ToHex(segments[i].placement.bytes), Text(expect["segments"][i]["placement"]));
    }
    if (!segments.empty()) {
      EXPECT_EQ(ToHex(Encode(FirstSegmentHeader(ns, segments[0], tokens))),
                Text(expect["header_of_first_segment"]));
    }
  }
}

TEST(Vectors, FrameHeadersMatchTheGoldenFile) {
  const json vectors = LoadVectors();
  for (const json& f : vectors["frames"]) {
    wire::FrameHeader header{static_cast<wire::FrameType>(f["type"].get<int>()), f["request_id"],
                             f["meta_length"], f["payload_length"]};
    EXPECT_EQ(ToHex(wire::EncodeFrameHeader(header)), Text(f["header"]));
  }
}

}  // namespace
}  // namespace ember
