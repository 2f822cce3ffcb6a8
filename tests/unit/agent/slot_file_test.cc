// The golden file is what llama-server (state format 4, -kvu -fa on, SmolLM2-135M F16) saved of a
// slot that held the two tokens of "The sea".
#include "client/agent/slot_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>

namespace ember::agent {
namespace {
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

Bytes Golden() {
  std::ifstream file("tests/vectors/llama_slot_v4.bin", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const ByteSpan bytes = AsBytes(text);
  return {bytes.begin(), bytes.end()};
}

struct SmallFile {
  std::vector<TokenId> tokens = {5, 6, 7, 8};
  std::vector<int32_t> positions = {0, 1, 2, 3};
  uint32_t streams = 1, v_trans = 0, sequences = 1, version = kSlotFileVersion, layers = 2;
  int32_t media = 0;
  uint64_t row_bytes = 3;

  // Row r of plane p is three bytes of value 16p + position.
  Bytes Make() const {
    Bytes out;
    ByteWriter w(&out);
    w.Put(kSlotFileMagic);
    w.Put(version);
    w.Put(static_cast<uint32_t>(tokens.size() + 4));
    w.Put(int32_t{-1});
    w.Put(int32_t{1});
    w.Put(static_cast<int32_t>(tokens.size()));
    w.PutRaw(std::as_bytes(std::span(tokens)));
    w.Put(media);
    w.Put(streams);
    w.Put(static_cast<uint32_t>(positions.size()));
    if (positions.empty()) return out;
    for (const int32_t position : positions) {
      w.Put(position);
      w.Put(sequences);
      w.Put(int32_t{1});
    }
    for (const uint32_t v : {v_trans, layers, 0u, 0u}) w.Put(v);
    for (uint32_t p = 0; p < 2 * layers; ++p) {
      w.Put(int32_t{1});
      w.Put(row_bytes);
      for (const int32_t position : positions) {
        for (uint64_t i = 0; i < row_bytes; ++i) w.Put(static_cast<uint8_t>(16 * p + position));
      }
    }
    return out;
  }
};

StatusCode CodeOf(const SmallFile& small) { return SlotFile::Parse(small.Make()).status().code(); }

// A file without a name.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("slot", MFD_CLOEXEC)) {}
  ~MemoryFile() { ::close(fd_); }
  int fd() const { return fd_; }
  Bytes Read() const {
    Bytes out(static_cast<size_t>(::lseek(fd_, 0, SEEK_END)));
    EXPECT_EQ(::pread(fd_, out.data(), out.size(), 0), static_cast<ssize_t>(out.size()));
    return out;
  }

 private:
  int fd_;
};

TEST(SlotFileTest, ReadsWhatTheEngineWrote) {
  const Bytes bytes = Golden();
  ASSERT_EQ(bytes.size(), 46884u);
  const auto file = SlotFile::Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_THAT(file->tokens(), ElementsAre(504, 3426));
  EXPECT_EQ(file->shape().layers, 30u);
  ASSERT_EQ(file->shape().planes.size(), 60u);
  EXPECT_EQ(file->shape().planes[0], (SlotPlane{1, 384}));  // f16, 3 heads of 64
  EXPECT_EQ(file->shape().BytesPerToken(), 23040u);
}

TEST(SlotFileTest, AFileJoinedFromItsCutsHoldsTheSame) {
  const Bytes bytes = Golden();
  const auto file = SlotFile::Parse(bytes);
  ASSERT_TRUE(file.ok());
  const Bytes first = file->CutPayload(0, 1), second = file->CutPayload(1, 2);
  MemoryFile out;
  ASSERT_EQ(::ftruncate(out.fd(), 1 << 20), 0);  // longer than what comes
  const ByteSpan payloads[] = {first, second};
  ASSERT_TRUE(WriteSlotFile(out.fd(), file->shape(), file->tokens(), payloads, 1).ok());
  const Bytes written = out.Read();
  // The token list is plain instead of packed, four numbers less, and the sequence is 0; else
  // equal.
  ASSERT_EQ(written.size(), bytes.size() - 16);
  const auto joined = SlotFile::Parse(written);
  ASSERT_TRUE(joined.ok()) << joined.status().ToString();
  EXPECT_EQ(joined->shape(), file->shape());
  EXPECT_THAT(joined->tokens(), ElementsAreArray(file->tokens()));
  EXPECT_EQ(joined->CutPayload(0, 2), file->CutPayload(0, 2));
}

TEST(SlotFileTest, APrefixCanBeJoinedWithoutTheRest) {
  const Bytes bytes = SmallFile().Make();
  const auto file = SlotFile::Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const Bytes payload = file->CutPayload(0, 2);
  MemoryFile out;
  const ByteSpan payloads[] = {payload};
  ASSERT_TRUE(WriteSlotFile(out.fd(), file->shape(), file->tokens().first(2), payloads, 2).ok());
  SmallFile expected;
  expected.tokens = {5, 6};
  expected.positions = {0, 1};
  const Bytes written = out.Read(), made = expected.Make();
  const auto joined = SlotFile::Parse(written), direct = SlotFile::Parse(made);
  ASSERT_TRUE(joined.ok() && direct.ok());
  EXPECT_EQ(joined->CutPayload(0, 2), direct->CutPayload(0, 2));
}

TEST(SlotFileTest, CellsInAnyOrderAreCutByPosition) {
  SmallFile shuffled;
  shuffled.positions = {2, 3, 0, 1};
  const Bytes a = SmallFile().Make(), b = shuffled.Make();
  const auto plain = SlotFile::Parse(a), other = SlotFile::Parse(b);
  ASSERT_TRUE(plain.ok() && other.ok());
  for (size_t begin = 0; begin < 4; ++begin) {
    for (size_t end = begin + 1; end <= 4; ++end) {
      EXPECT_EQ(plain->CutPayload(begin, end), other->CutPayload(begin, end))
          << begin << " " << end;
    }
  }
}

TEST(SlotFileTest, AnEmptySlotIsAFileWithoutTokens) {
  SmallFile empty;
  empty.tokens = {};
  empty.positions = {};
  const Bytes bytes = empty.Make();
  const auto file = SlotFile::Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_TRUE(file->tokens().empty());
  EXPECT_TRUE(file->shape().planes.empty());
}

TEST(SlotFileTest, ATokenWithoutItsCellIsLeftOut) {
  SmallFile ahead;
  ahead.tokens.push_back(9);
  const Bytes bytes = ahead.Make();
  const auto file = SlotFile::Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_THAT(file->tokens(), ElementsAre(5, 6, 7, 8));
}

TEST(SlotFileTest, EveryTruncationAndEveryExtraByteIsRefused) {
  Bytes bytes = SmallFile().Make();
  for (size_t n = 0; n < bytes.size(); ++n) {
    // An exact copy, so that a sanitizer sees any read past the end.
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
    EXPECT_FALSE(SlotFile::Parse(cut).ok()) << n;
  }
  bytes.push_back({});
  EXPECT_EQ(SlotFile::Parse(bytes).status().code(), StatusCode::kCorrupt);
}

TEST(SlotFileTest, NoNumberInTheFileCanLeadItAstray) {
  const Bytes bytes = SmallFile().Make();
  for (size_t at = 0; at + 4 <= bytes.size(); ++at) {
    for (const uint32_t lie : {0u, 1u, 5u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
      Bytes changed = bytes;
      std::memcpy(changed.data() + at, &lie, sizeof lie);
      const auto file = SlotFile::Parse(changed);
      // Rows and sequence numbers may be anything; whatever is accepted can be cut.
      if (file.ok() && !file->tokens().empty()) (void)file->CutPayload(0, file->tokens().size());
    }
  }
}

TEST(SlotFileTest, RefusesConfigurationsItDoesNotServe) {
  SmallFile f;
  f.version = 5;
  EXPECT_EQ(CodeOf(f), StatusCode::kMismatch);
  f = {};
  f.streams = 2;
  EXPECT_EQ(CodeOf(f), StatusCode::kMismatch);
  f = {};
  f.v_trans = 1;
  EXPECT_EQ(CodeOf(f), StatusCode::kMismatch);
  f = {};
  f.media = 1;
  EXPECT_EQ(CodeOf(f), StatusCode::kMismatch);
  f = {};
  f.sequences = 2;
  EXPECT_EQ(CodeOf(f), StatusCode::kMismatch);
}

TEST(SlotFileTest, RefusesImpossiblePositionsAndSizes) {
  SmallFile f;
  f.positions = {0, 1, 2, 2};
  EXPECT_EQ(CodeOf(f), StatusCode::kCorrupt);
  f.positions = {1, 2, 3, 4};
  EXPECT_EQ(CodeOf(f), StatusCode::kCorrupt);
  f.positions = {0, 1, 2, -1};
  EXPECT_EQ(CodeOf(f), StatusCode::kCorrupt);
  f.positions = {0, 1};  // two tokens without KV
  EXPECT_EQ(CodeOf(f), StatusCode::kCorrupt);
  f = {};
  f.layers = 0;
  EXPECT_EQ(CodeOf(f), StatusCode::kCorrupt);
}

TEST(SlotPayloadTest, OnlyItsLikeIsJoined) {
  const Bytes bytes = SmallFile().Make();
  const auto file = SlotFile::Parse(bytes);
  ASSERT_TRUE(file.ok());
  const Bytes payload = file->CutPayload(0, 2);
  EXPECT_EQ(payload.size(), file->shape().PayloadBytes(2));
  EXPECT_TRUE(CheckPayload(payload, file->shape(), 2).ok());
  SlotShape other = file->shape();
  other.n_rot_k = 64;
  EXPECT_EQ(CheckPayload(payload, other, 2).code(), StatusCode::kMismatch);
  EXPECT_EQ(CheckPayload(payload, file->shape(), 1).code(), StatusCode::kMismatch);
  for (size_t n = 0; n < payload.size(); ++n) {
    EXPECT_FALSE(CheckPayload(ByteSpan(payload).first(n), file->shape(), 2).ok()) << n;
  }
  for (size_t at = 0; at < file->shape().PayloadHeaderBytes(); ++at) {
    Bytes changed = payload;
    changed[at] ^= std::byte{1};
    EXPECT_FALSE(CheckPayload(changed, file->shape(), 2).ok()) << at;
  }
}

TEST(SlotPayloadTest, NothingIsWrittenOfPayloadsThatDoNotFit) {
  const Bytes bytes = SmallFile().Make();
  const auto file = SlotFile::Parse(bytes);
  ASSERT_TRUE(file.ok());
  const Bytes payload = file->CutPayload(0, 2);
  const ByteSpan payloads[] = {payload, ByteSpan(payload).first(payload.size() - 1)};
  MemoryFile out;
  EXPECT_EQ(WriteSlotFile(out.fd(), file->shape(), file->tokens(), payloads, 2).code(),
            StatusCode::kMismatch);
  EXPECT_EQ(WriteSlotFile(out.fd(), file->shape(), file->tokens(), std::span(payloads).first(1), 2)
                .code(),
            StatusCode::kMismatch);
  EXPECT_TRUE(out.Read().empty());
}

TEST(SlotPayloadTest, LayersLieWhereTheShapeSays) {
  const Bytes bytes = SmallFile().Make();
  const auto file = SlotFile::Parse(bytes);
  ASSERT_TRUE(file.ok());
  const Bytes payload = file->CutPayload(0, 4);
  const std::vector<uint64_t> offsets = file->shape().LayerOffsets(4);
  ASSERT_EQ(offsets.size(), 2u);
  EXPECT_EQ(payload[offsets[0]], std::byte{0});
  EXPECT_EQ(payload[offsets[1]], std::byte{16});
}

}  // namespace
}  // namespace ember::agent
