// Every message survives encoding; no truncation, extension or lie about a length gets through.
#include <gtest/gtest.h>

#include <functional>

#include "proto/base/checksum.h"
#include "proto/base/random.h"
#include "proto/wire/arena_offer.h"
#include "proto/wire/frame.h"
#include "proto/wire/limits.h"
#include "proto/wire/messages.h"

namespace ember::wire {
namespace {

BlockKey Key(int n) {
  BlockKey key;
  key.ns.bytes.fill(static_cast<std::byte>(n));
  key.hash.bytes.fill(static_cast<std::byte>(n + 1));
  return key;
}

// Encoded samples of all messages, each with a decoder that re-encodes what it read.
struct Sample {
  const char* name;
  Bytes bytes;
  std::function<Result<Bytes>(ByteSpan)> recode;
};

template <typename T>
Sample SampleOf(const char* name, const T& value) {
  return {name, Encode(value), [](ByteSpan bytes) -> Result<Bytes> {
            Result<T> decoded = Decode<T>(bytes);
            if (!decoded.ok()) return decoded.status();
            return Encode(*decoded);
          }};
}

std::vector<Sample> Samples() {
  const HelloReply hello{2,
                         "s1",
                         77,
                         1 << 20,
                         3,
                         {{"s1", "::1", 7101, 1, "z"}, {"s2", "h", 1, 2, ""}},
                         {7101, 7102},
                         1,
                         "/run/shm.sock"};
  return {
      SampleOf("hello", Hello{1, 1, "agent", "s1"}),
      SampleOf("hello reply", hello),
      SampleOf("match", Match{{Key(1), Key(2)}, 500}),
      SampleOf("match reply", MatchReply{9,
                                         {{MissReason::kNone, 5, {1, 2}, Tier::kDisk},
                                          {MissReason::kEvicted, 0, {}, Tier::kMemory}}}),
      SampleOf("reserve", Reserve{{Bytes(3), Bytes(700)}, AckLevel::kDisk}),
      SampleOf("reserve reply", ReserveReply{100,
                                             {{StatusCode::kOk, false, {1, 2}},
                                              {StatusCode::kOk, true, {}, AckLevel::kDisk}}}),
      SampleOf("write", Write{{1, 2}, 99}),
      SampleOf("commit", Commit{{{1, 2}, {3, 4}}, AckLevel::kDisk}),
      SampleOf("commit reply", CommitReply{{{StatusCode::kOk, AckLevel::kDisk},
                                            {StatusCode::kCorrupt, AckLevel::kMemory}}}),
      SampleOf("abort", Abort{{{1, 2}}}),
      SampleOf("release", Release{5}),
      SampleOf("get", Get{{{Key(1), 0, 0}, {Key(2), 8, 16}}, 500}),
      SampleOf("get reply", GetReply{1, MissReason::kNone, Bytes(40), 8, 77, {4096, 12}}),
      SampleOf("error", ErrorReply{StatusCode::kBusy, "full"}),
      SampleOf("report corrupt", ReportCorrupt{Key(4), {5, 6}}),
  };
}

TEST(Messages, SurviveEncoding) {
  for (const Sample& s : Samples()) {
    const auto again = s.recode(s.bytes);
    ASSERT_TRUE(again.ok()) << s.name << ": " << again.status().ToString();
    EXPECT_EQ(*again, s.bytes) << s.name;
  }
}

TEST(Messages, EveryTruncationAndExtensionIsRefused) {
  for (const Sample& s : Samples()) {
    for (size_t n = 0; n < s.bytes.size(); ++n) {
      EXPECT_FALSE(s.recode(ByteSpan(s.bytes).first(n)).ok()) << s.name << " cut at " << n;
    }
    Bytes longer = s.bytes;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(s.recode(longer).ok()) << s.name;
  }
}

TEST(Messages, RandomDamageNeverCrashesAndNeverGrowsMemory) {
  SeededRandom random(7);
  for (const Sample& s : Samples()) {
    for (int round = 0; round < 2000; ++round) {
      Bytes bad = s.bytes;
      for (int k = 0; k < 3; ++k)
        bad[random.Next() % bad.size()] = static_cast<std::byte>(random.Next());
      const auto again = s.recode(bad);
      if (again.ok()) EXPECT_EQ(again->size(), bad.size()) << s.name;
    }
  }
}

TEST(Messages, CountsOverTheLimitAreRefused) {
  EXPECT_TRUE(Decode<Match>(Encode(Match{std::vector<BlockKey>(kMaxKeysPerBatch), 0})).ok());
  EXPECT_FALSE(Decode<Match>(Encode(Match{std::vector<BlockKey>(kMaxKeysPerBatch + 1), 0})).ok());
}

TEST(ArenaOffer, SurvivesEncodingAndNoDamageGetsThrough) {
  const ArenaOffer offer{.incarnation = 77, .shard = 3, .capacity = 1ull << 40};
  const Bytes good = Encode(offer);
  ASSERT_EQ(good.size(), kArenaOfferBytes);
  EXPECT_EQ(*DecodeArenaOffer(good), offer);
  for (size_t i = 0; i < good.size() * 8; ++i) {
    Bytes bad = good;
    bad[i / 8] ^= static_cast<std::byte>(1 << (i % 8));
    EXPECT_FALSE(DecodeArenaOffer(bad).ok()) << "bit " << i;
  }
  for (size_t n = 0; n < good.size(); ++n) {
    EXPECT_FALSE(DecodeArenaOffer(ByteSpan(good).first(n)).ok()) << "cut at " << n;
  }
}

TEST(FrameHeader, SurvivesEncoding) {
  const FrameHeader header{FrameType::kGetReply, 42, 100, 1 << 20};
  const auto decoded = DecodeFrameHeader(EncodeFrameHeader(header));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->type, FrameType::kGetReply);
  EXPECT_EQ(decoded->request_id, 42u);
  EXPECT_EQ(decoded->meta_length, 100u);
  EXPECT_EQ(decoded->payload_length, 1u << 20);
}

TEST(FrameHeader, EveryFlippedBitIsRefused) {
  const auto good = EncodeFrameHeader({FrameType::kWrite, 1, 24, 4096});
  for (size_t i = 0; i < good.size() * 8; ++i) {
    auto bad = good;
    bad[i / 8] ^= static_cast<std::byte>(1 << (i % 8));
    EXPECT_FALSE(DecodeFrameHeader(bad).ok()) << "bit " << i;
  }
}

TEST(FrameHeader, LengthsOverTheLimitsAreRefusedBeforeAnyBody) {
  EXPECT_FALSE(DecodeFrameHeader(EncodeFrameHeader({FrameType::kWrite, 1, 24, 1ull << 40})).ok());
  EXPECT_FALSE(
      DecodeFrameHeader(EncodeFrameHeader({FrameType::kWrite, 1, 24, kMaxPayloadBytes + 1})).ok());
  EXPECT_FALSE(
      DecodeFrameHeader(EncodeFrameHeader({FrameType::kMatch, 1, kMaxMetaBytes + 1, 0})).ok());
  EXPECT_FALSE(
      DecodeFrameHeader(EncodeFrameHeader({FrameType::kHello, 1, kMaxHelloBytes + 1, 0})).ok());
}

TEST(FrameHeader, AnotherProtocolVersionIsAMismatchNotGarbage) {
  auto bytes = EncodeFrameHeader({FrameType::kHello, 1, 8, 0});
  bytes[4] = std::byte{kProtocolVersion + 1};
  const uint64_t checksum = Xxh3Of64(ByteSpan(bytes).first(32));
  std::memcpy(bytes.data() + 32, &checksum, 8);
  EXPECT_EQ(DecodeFrameHeader(bytes).status().code(), StatusCode::kMismatch);
}

}  // namespace
}  // namespace ember::wire
