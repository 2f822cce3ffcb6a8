// Orders of messages that a publisher, its replay and whatever is in between may produce, and what
// is heard of them; and the forms of the messages themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "router/events/event_message.h"
#include "router/events/event_stream.h"
#include "tests/unit/router_events/msgpack_writer.h"

namespace ember::router {
namespace {

using ::testing::ElementsAre;

class WordsSink final : public EventStream::Sink {
 public:
  void OnBatch(KvEventBatch batch, bool) override {
    words += std::to_string(static_cast<int64_t>(batch.timestamp)) + " ";
  }
  void OnLost(const Status&) override { words += "lost "; }
  void OnTrusted() override { words += "trusted "; }
  std::string words;
};

// Words: "c" a connection, "5" batch 5 live, "5'" another publisher's, "5x" one that can't be read,
// "r5" batch 5 of a replay, "end" the replay's end, "cut" its connection, "wait" ten minutes.
struct OrderRow {
  const char* what;
  bool has_replay;
  const char* script;
  const char* heard;  // another publisher's batches count from 1000
};

std::string Heard(const OrderRow& row) {
  MetricsRegistry registry;
  EventMetrics metrics{registry};
  WordsSink sink;
  EventStream stream{{.has_replay = row.has_replay}, sink, metrics};
  TimePoint now{};
  std::istringstream script(row.script);
  for (std::string word; script >> word;) {
    if (word == "c") {
      stream.OnConnected(now);
    } else if (word == "end") {
      stream.OnReplayEnd(now);
    } else if (word == "cut") {
      stream.OnReplayBroken(UnavailableError("cut"), now);
    } else if (word == "wait") {
      for (int s = 0; s < 600; ++s) stream.Tick(now += seconds(1));
    } else {
      const bool replayed = word[0] == 'r';
      const uint64_t number = std::stoull(word.substr(replayed ? 1 : 0));
      const double time =
          static_cast<double>(number % 1'000'000) + (word.back() == '\'' ? 1000 : 0);
      const std::string payload = word.back() == 'x'
                                      ? std::string("\xc1")
                                      : MsgpackWriter().Array(2).Double(time).Array(0).str();
      if (replayed) {
        stream.OnReplayed(number, AsBytes(payload), now);
      } else {
        stream.OnLive(number, AsBytes(payload), now);
      }
    }
  }
  std::string words = sink.words;
  if (!words.empty()) words.pop_back();
  return words;
}

TEST(EventStreamRows, WithoutAReplay) {
  for (const OrderRow& row : std::vector<OrderRow>{
           {"from the start", false, "c 0 1 2", "trusted 0 1 2"},
           {"from the middle", false, "c 7 8", "7 8"},
           {"twice", false, "c 0 1 1 2", "trusted 0 1 2"},
           {"a gap after the first", false, "c 0 5 6", "trusted 0 lost 5 6"},
           {"two gaps", false, "c 0 2 4", "trusted 0 lost 2 lost 4"},
           {"began anew", false, "c 0 1 2 0' 1'", "trusted 0 1 2 lost trusted 1000 1001"},
           {"began anew, its first ones unheard", false, "c 0 1 2 1' 2'",
            "trusted 0 1 2 lost 1001 1002"},
           {"began anew after its first", false, "c 0 0' 1'", "trusted 0 lost trusted 1000 1001"},
           {"a new connection", false, "c 0 1 c 2", "trusted 0 1 lost 2"},
           {"to a new publisher", false, "c 0 1 c 0' 1'", "trusted 0 1 lost trusted 1000 1001"},
           {"one can't be read", false, "c 0 1x 2", "trusted 0 lost 2"},
           {"the first can't be read", false, "c 0x 1", "trusted lost 1"},
           {"time passes", false, "c 0 2 wait 3", "trusted 0 lost 2 3"},
       }) {
    EXPECT_EQ(Heard(row), row.heard) << row.what;
  }
}

TEST(EventStreamRows, WithAReplay) {
  for (const OrderRow& row : std::vector<OrderRow>{
           {"nothing was there before", true, "c end 0 1", "trusted 0 1"},
           {"the first was missed", true, "c end 1 r0 2", "trusted 0 1 2"},
           {"the first ones can't be had any more", true, "c r5 r6 end 7", "5 6 7"},
           {"live ones before the replay's", true, "c 6 7 r4 r5 r6 r7 end 8", "4 5 6 7 8"},
           {"they are what the replay ends with", true, "c 6 7 r4 r5 end 8", "4 5 6 7 8"},
           {"one is missing between", true, "c 7 r4 r5 end r6 8", "4 5 6 7 8"},
           {"a gap, filled from its middle: what is before it can't be had", true,
            "c end 0 1 6 r4 r5 7", "trusted 0 1 lost 4 5 6 7"},
           {"and filled to its middle only", true, "c end 0 1 6 r2 r3 end end 7",
            "trusted 0 1 2 3 lost 6 7"},
           {"the replay brings more than was asked for", true, "c end 0 1 4 r0 r1 r2 r3 5",
            "trusted 0 1 2 3 4 5"},
           {"out of order", true, "c end 0 4 r1 r3 r2 r2 r3 5", "trusted 0 1 2 3 4 5"},
           {"repeated", true, "c end 0 3 r1 r1 r2 r2 4", "trusted 0 1 2 3 4"},
           {"an answer without an end", true, "c r0 r1 wait 2", "0 1 trusted 2"},
           {"no answer at all", true, "c 0 1 wait 2", "trusted 0 1 2"},
           {"nor to a gap", true, "c end 0 2 cut wait 3", "trusted 0 lost 2 3"},
           {"a late answer is none", true, "c end 0 1 r0 r1 end 2", "trusted 0 1 2"},
           {"an end without a question", true, "c end end 0 end 1", "trusted 0 1"},
           {"began anew while a gap is filled", true, "c end 0 1 5 0' 1' r2 r3 2'",
            "trusted 0 1 lost trusted 1000 1001 1002"},
           {"began anew while its pause lasts", true, "c end 0 1 5 cut 0' 1'",
            "trusted 0 1 lost trusted 1000 1001"},
           {"began anew, its first unheard", true, "c end 0 1 2 1' r0' 2'",
            "trusted 0 1 2 lost 1000 1001 trusted 1002"},
           {"another connection to the same", true, "c end 0 1 c r1 end 2", "trusted 0 1 2"},
           {"which lost some", true, "c end 0 1 c r1 r2 r3 end 4", "trusted 0 1 2 3 4"},
           {"to another", true, "c end 0 1 c r1' r0' r1' end 2'",
            "trusted 0 1 lost 1000 1001 trusted 1002"},
           {"that has published less", true, "c end 0 1 2 c end r0' end 1'",
            "trusted 0 1 2 lost 1000 trusted 1001"},
           {"and says so live", true, "c end 0 1 2 c 0' 1'",
            "trusted 0 1 2 lost trusted 1000 1001"},
           {"the largest number there is", true, "c end 0 18446744073709551615 end end 1 r1 2",
            "trusted 0 lost 551615 lost 1 2"},
       }) {
    EXPECT_EQ(Heard(row), row.heard) << row.what;
  }
}

TEST(EventMessage, TheLastTwoFramesDecide) {
  const std::string five("\0\0\0\0\0\0\0\5", 8), end(8, '\xff'), none, body = "body";
  const auto read = [](const std::vector<std::string>& parts) {
    std::vector<ByteSpan> frames;
    for (const std::string& part : parts) frames.push_back(AsBytes(part));
    return EventMessage::Read(frames);
  };
  for (const auto& frames : std::vector<std::vector<std::string>>{
           {"kv-events", five, body},
           {"kv@10.0.0.1@org/model", five, body},
           {none, five, body},
           {five, body},
           {none, "kv-events", five, body},
           {five, five, body},
       }) {
    const auto message = read(frames);
    ASSERT_TRUE(message) << frames.size();
    EXPECT_EQ(message->sequence, 5u);
    EXPECT_EQ(AsString(message->payload), body);
  }
  for (const auto& frames : std::vector<std::vector<std::string>>{
           {none, end, none}, {none, none, end, none}, {end, none}, {none, "kv", end, "x"}}) {
    ASSERT_TRUE(read(frames));
    EXPECT_EQ(read(frames)->sequence, EventMessage::kEndOfReplay);
  }
  EXPECT_TRUE(read({"t", five, none})) << "which is no batch, but has its number";
  for (const auto& frames : std::vector<std::vector<std::string>>{{},
                                                                  {five},
                                                                  {none},
                                                                  {body, none},
                                                                  {five, none, body},
                                                                  {"t", "5", body},
                                                                  {"t", five + five, body},
                                                                  {none, none, "t", five, body}}) {
    EXPECT_FALSE(read(frames)) << frames.size();
  }
}

}  // namespace
}  // namespace ember::router
