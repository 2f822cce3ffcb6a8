#include "proto/base/bytes.h"

#include <gtest/gtest.h>

#include "proto/base/checksum.h"

namespace ember {
namespace {

TEST(ByteReader, NeverReadsPastItsSpan) {
  Bytes three(3);
  ByteReader r(three);
  EXPECT_EQ(r.Get<uint32_t>(), 0u);
  EXPECT_TRUE(r.failed());
  EXPECT_EQ(r.Get<uint8_t>(), 0) << "once failed, it stays failed";
  EXPECT_FALSE(r.Finish("x").ok());
}

TEST(ByteReader, ALyingLengthReservesNothing) {
  Bytes bytes;
  ByteWriter(&bytes).Put(uint32_t{0xffffffff});
  {
    ByteReader r(bytes);
    EXPECT_TRUE(r.GetSized(SIZE_MAX).empty());
    EXPECT_TRUE(r.failed());
  }
  {
    ByteReader r(bytes);
    EXPECT_EQ(r.GetCount(SIZE_MAX, 16), 0u);
    EXPECT_TRUE(r.failed());
  }
}

TEST(ByteReader, LeftoverBytesAreAnError) {
  Bytes bytes(5);
  ByteReader r(bytes);
  r.Get<uint32_t>();
  EXPECT_FALSE(r.failed());
  EXPECT_EQ(r.Finish("x").code(), StatusCode::kInvalid);
}

TEST(Hex, RoundTripsAndRefusesWhatIsNotHex) {
  Bytes bytes = {std::byte{0x00}, std::byte{0xfa}, std::byte{0x19}};
  EXPECT_EQ(ToHex(bytes), "00fa19");
  Bytes out(3);
  EXPECT_TRUE(FromHex("00FA19", out).ok());
  EXPECT_EQ(out, bytes);
  EXPECT_FALSE(FromHex("00fa1", out).ok());
  EXPECT_FALSE(FromHex("00fa1g", out).ok());
}

TEST(Checksum, InPiecesEqualsAtOnce) {
  Bytes bytes(100'000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  ChecksumStream stream;
  for (size_t at = 0, step = 1; at < bytes.size(); at += step, step = step * 3 % 5000 + 1) {
    stream.Update(ByteSpan(bytes).subspan(at, std::min(step, bytes.size() - at)));
  }
  EXPECT_EQ(stream.Digest(), Xxh3Of(bytes));
}

}  // namespace
}  // namespace ember
