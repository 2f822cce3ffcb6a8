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

TEST(SseScanner, KnowsTheTypeOfTheLastWholeEvent) {
  const std::string big = "data: " + std::string(200, 'x');
  for (const auto& [stream, type] : std::vector<std::pair<std::string, std::string>>{
           {"event: a\ndata: 1\n\n", "a"},
           {"data: 1\r\nevent:a\r\n\r\n: ping\n\n", "a"},
           {"event: a\ndata: 1\n\nevent: b\ndata: 2\n", "a"},
           {"event: a\ndata: 1\n\ndata: 2\n\n", ""},
           {"event: a\n\ndata: 1\n\n", ""},
           {"event: a\n" + big + "\n\n", "a"},
           {"events: a\ndata: 1\n\n", ""},
           {"event: " + std::string(90, 'a') + "\ndata: 1\n\n", std::string(64, 'a')}}) {
    for (size_t cut = 0; cut <= stream.size(); ++cut) {
      SseScanner scanner([](std::string_view) {}, 150);
      scanner.Feed(stream.substr(0, cut));
      scanner.Feed(stream.substr(cut));
      EXPECT_EQ(scanner.last_type(), type) << stream << ", cut at " << cut;
    }
  }
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

TEST(SseScanner, AnEventOverTheLimitIsNotSeenAndTheNextOneIs) {
  const std::vector<std::string> around = {"small", "later"};
  for (const std::string& big :
       {"data: " + std::string(200, 'x'), ": " + std::string(200, 'x') + "\r\ndata: of the same",
        std::string("data: of several lines\ndata: of several lines\ndata: of several lines\n"
                    "data: of several lines\ndata: of several lines")}) {
    for (const std::string_view end : {"\n\n", "\r\n\r\n", "\r\r"}) {
      const std::string stream = "data: small\n\n" + big + std::string(end) + "data: later\n\n";
      std::vector<std::string_view> bytes;
      for (size_t i = 0; i < stream.size(); ++i)
        bytes.push_back(std::string_view(stream).substr(i, 1));
      EXPECT_EQ(Scan(bytes, 60), around) << stream;
      EXPECT_EQ(Scan({stream}, 60), around) << stream;
    }
  }
  EXPECT_TRUE(Scan({"data: " + std::string(200, 'x'), "\n\n"}, 100).empty());
}

}  // namespace
}  // namespace ember::http
