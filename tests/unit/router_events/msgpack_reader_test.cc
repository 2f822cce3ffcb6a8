#include "router/events/msgpack_reader.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/router_events/msgpack_writer.h"

namespace ember::router {
namespace {

using Kind = MsgpackReader::Kind;

MsgpackReader ReaderOf(const std::string& bytes) { return MsgpackReader(AsBytes(bytes)); }

TEST(MsgpackReader, ReadsIntegersOfEveryEncodingAtFullWidth) {
  for (const int64_t v : {int64_t{0}, int64_t{127}, int64_t{-1}, int64_t{-32}, int64_t{-33},
                          std::numeric_limits<int64_t>::min()}) {
    const std::string bytes = MsgpackWriter().Signed(v).str();
    MsgpackReader in = ReaderOf(bytes);
    const MsgpackReader::Int read = in.ReadInt();
    EXPECT_EQ(static_cast<int64_t>(read.bits), v);
    EXPECT_EQ(read.negative, v < 0);
    EXPECT_FALSE(in.failed());
  }
  for (const uint64_t v : {uint64_t{200}, uint64_t{60000}, uint64_t{1} << 31, ~uint64_t{0}}) {
    const std::string bytes = MsgpackWriter().Unsigned(v).str();
    MsgpackReader in = ReaderOf(bytes);
    const MsgpackReader::Int read = in.ReadInt();
    EXPECT_EQ(read.bits, v);
    EXPECT_FALSE(read.negative);
  }
  const std::string int8 = {'\xd0', '\x80'};  // -128 in one byte
  MsgpackReader in = ReaderOf(int8);
  EXPECT_EQ(static_cast<int64_t>(in.ReadInt().bits), -128);
}

TEST(MsgpackReader, SkipsEveryKindAndGivesItsEncoding) {
  const std::string value = MsgpackWriter()
                                .Map(2)
                                .Text("a")
                                .Array(3)
                                .Nil()
                                .Double(1.5)
                                .Binary("xyz")
                                .Text("b")
                                .Raw(std::string("\xc7\x02\x05hi", 5))  // an extension
                                .str();
  const std::string bytes = value + MsgpackWriter().Unsigned(9).str();
  MsgpackReader in = ReaderOf(bytes);
  EXPECT_EQ(AsString(in.Skip()), value);
  EXPECT_EQ(in.ReadInt().bits, 9u);
  EXPECT_EQ(in.Peek(), Kind::kEnd);
  EXPECT_FALSE(in.failed());
}

// Reliability: a decoder that believes lengths.
TEST(MsgpackReader, BelievesNoLength) {
  for (const char* lie : {"\xdd\xff\xff\xff\xff", "\xdf\xff\xff\xff\xff", "\xdb\xff\xff\xff\xff",
                          "\xc6\xff\xff\xff\xff", "\xc9\xff\xff\xff\xff"}) {
    const std::string bytes = std::string(lie, 5) + "abc";
    MsgpackReader skipping = ReaderOf(bytes);
    skipping.Skip();
    EXPECT_TRUE(skipping.failed());
    MsgpackReader reading = ReaderOf(bytes);
    if (reading.Peek() == Kind::kArray)
      EXPECT_EQ(reading.ReadArray(), 0u);
    else if (reading.Peek() == Kind::kMap)
      EXPECT_EQ(reading.ReadMap(), 0u);
    else
      EXPECT_TRUE(reading.ReadBytes().empty());
    EXPECT_TRUE(reading.failed());
    EXPECT_EQ(reading.Peek(), Kind::kEnd);
  }
}

TEST(MsgpackReader, RefusesDeepNestingWithoutRecursion) {
  const auto nested = [](size_t depth) { return std::string(depth, '\x91') + '\x01'; };
  const std::string allowed = nested(MsgpackReader::kMaxDepth - 1);
  MsgpackReader shallow = ReaderOf(allowed);
  EXPECT_EQ(shallow.Skip().size(), allowed.size());
  for (const size_t depth : {MsgpackReader::kMaxDepth, size_t{10'000}, size_t{4'000'000}}) {
    const std::string bytes = nested(depth);
    MsgpackReader in = ReaderOf(bytes);
    in.Skip();
    EXPECT_TRUE(in.failed()) << depth;
  }
}

TEST(MsgpackReader, ATruncatedValueOfAnyLengthFails) {
  const std::string whole = MsgpackWriter()
                                .Array(4)
                                .Unsigned(~uint64_t{0})
                                .Double(2)
                                .Text("hello")
                                .Map(1)
                                .Text("k")
                                .Binary("v")
                                .str();
  for (size_t cut = 0; cut < whole.size(); ++cut) {
    const std::string bytes = whole.substr(0, cut);
    MsgpackReader in = ReaderOf(bytes);
    in.Skip();
    EXPECT_TRUE(in.failed()) << cut;
  }
}

TEST(MsgpackReader, AnotherKindThanAskedForIsAnError) {
  const std::string bytes = MsgpackWriter().Text("7").str();
  MsgpackReader in = ReaderOf(bytes);
  EXPECT_EQ(in.ReadInt().bits, 0u);
  EXPECT_TRUE(in.failed());
}

}  // namespace
}  // namespace ember::router
