#include "client/http/sse_scanner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ember::http {
namespace {

std::vector<std::string> Scan(const std::vector<std::string_view>& pieces, size_t limit = 1 << 20) {
  std::vector<std::string> seen;
  SseScanner scanner([&](std::string_view data) { seen.emplace_back(data); }, limit);
  for (const std::string_view piece : pieces) scanner.Feed(piece);
  return seen;
}

constexpr std::string_view kStream =
    ": hello\n\ndata: {\"a\":\"\xE4\xB8\xAD\xF0\x9F\x98\x80\"}\r\n\r\ndata:no space\n\nevent: "
    "x\nid: 7\ndata: one\ndata: two\n\n"
    "data\n\nretry: 10\n\ndata: cr only\r\rdatax: not data\n\ndata: [DONE]\n\ndata: unfinished";

const std::vector<std::string> kEvents = {
    "{\"a\":\"\xE4\xB8\xAD\xF0\x9F\x98\x80\"}", "no space", "one\ntwo", "", "cr only", "[DONE]"};

TEST(SseScanner, SeesTheSameEventsWhereverTheStreamIsCut) {
  EXPECT_EQ(Scan({kStream}), kEvents);
  for (size_t cut = 0; cut <= kStream.size(); ++cut) {
    EXPECT_EQ(Scan({kStream.substr(0, cut), kStream.substr(cut)}), kEvents) << "cut at " << cut;
  }
  std::vector<std::string_view> bytes;
  for (size_t i = 0; i < kStream.size(); ++i) bytes.push_back(kStream.substr(i, 1));
  EXPECT_EQ(Scan(bytes), kEvents);
}

TEST(SseScanner, TakesAByteOrderMarkAtTheStartOnly) {
  EXPECT_EQ(Scan({"\xEF\xBB",
                  "\xBF"
                  "data: a\n\n\xEF\xBB\xBF"
                  "data: b\n\n"}),
            std::vector<std::string>{"a"});
}

TEST(SseScanner, LeavesLineSeparatorsOfOtherKindsAlone) {
  const std::string data =
      "a\xE2\x80\xA8"
      "b\xE2\x80\xA9"
      "c\xC2\x85"
      "d" +
      std::string(1, '\0') + "e";
  EXPECT_EQ(Scan({"data: " + data + "\n\n"}), std::vector<std::string>{data});
}

TEST(SseScanner, StopsLookingAtAnEventOverTheLimit) {
  std::vector<std::string> seen;
  SseScanner scanner([&](std::string_view data) { seen.emplace_back(data); }, 100);
  scanner.Feed("data: small\n\n");
  for (int i = 0; i < 10; ++i) scanner.Feed("data: eleven chr\n");
  EXPECT_TRUE(scanner.stopped());
  scanner.Feed("\n\ndata: later\n\n");
  EXPECT_EQ(seen, std::vector<std::string>{"small"});
  EXPECT_TRUE(Scan({"data: " + std::string(200, 'x'), "\n\n"}, 100).empty());
}

}  // namespace
}  // namespace ember::http
