#include "client/cli/text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ember::cli {
namespace {

TEST(Text, Quantities) {
  EXPECT_EQ(ByteText(0), "0 B");
  EXPECT_EQ(ByteText(1023), "1023 B");
  EXPECT_EQ(ByteText(1536), "1.5 KiB");
  EXPECT_EQ(ByteText(312ull << 20), "312.0 MiB");
  EXPECT_EQ(DurationText(milliseconds(350)), "350ms");
  EXPECT_EQ(DurationText(seconds(125)), "2m05s");
  EXPECT_EQ(DurationText(seconds(3 * 3600 + 12 * 60)), "3h12m");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(1234567), "1,234,567");
  EXPECT_EQ(ShareText(61, 100), "61%");
  EXPECT_EQ(ShareText(0, 0), "-");
  EXPECT_EQ(BarText(1, 2, 4), "##..");
  EXPECT_EQ(BarText(9, 2, 4), "####");
  EXPECT_EQ(BarText(0, 0, 4), "....");
}

TEST(Text, TablesAlignNumbersRight) {
  TextTable table({"NODE", "N"});
  table.Add({"s1", "7"});
  table.Add({"store-2", "1,000"});
  EXPECT_EQ(table.ToString(),
            "  NODE     N\n"
            "  s1           7\n"
            "  store-2  1,000\n");
}

TEST(Text, Json) {
  JsonObject object;
  object.Add("text", "a\"b\n").Add("n", uint64_t{18446744073709551615u}).Add("x", 0.5);
  object.Add("nan", std::nan("")).Add("yes", true).AddRaw("list", JsonArray({"1", "2"}));
  EXPECT_EQ(
      object.ToString(),
      R"({"text":"a\"b\n","n":18446744073709551615,"x":0.5,"nan":null,"yes":true,"list":[1,2]})");
}

}  // namespace
}  // namespace ember::cli
