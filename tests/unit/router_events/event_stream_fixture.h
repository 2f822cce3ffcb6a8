// An EventStream, the messages that come to it, and what is heard of them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "router/events/event_stream.h"
#include "tests/unit/router_events/msgpack_writer.h"

namespace ember::router {

// A batch without events whose timestamp is its number, or that of another publisher's.
inline std::string PayloadOf(uint64_t number, double publisher = 0) {
  return MsgpackWriter().Array(2).Double(publisher + static_cast<double>(number)).Array(0).str();
}

// Everything in the order in which it is heard: numbers of batches, "lost", "trusted".
class HeardSink final : public EventStream::Sink {
 public:
  void OnBatch(KvEventBatch batch, bool) override {
    heard.push_back(std::to_string(static_cast<int64_t>(batch.timestamp)));
  }
  void OnLost(const Status&) override { heard.push_back("lost"); }
  void OnTrusted() override { heard.push_back("trusted"); }
  std::vector<std::string> heard;
};

class EventStreamTest : public ::testing::Test {
 protected:
  void Connect() { stream_.OnConnected(now_); }
  void Live(uint64_t number, double publisher = 0) {
    const std::string payload = PayloadOf(number, publisher);
    stream_.OnLive(number, AsBytes(payload), now_);
  }
  void Replay(uint64_t number, double publisher = 0) {
    const std::string payload = PayloadOf(number, publisher);
    stream_.OnReplayed(number, AsBytes(payload), now_);
  }
  void End() { stream_.OnReplayEnd(now_); }
  // What is asked for again; -1: nothing.
  int64_t Asked() const {
    return stream_.replay() ? static_cast<int64_t>(stream_.replay()->from) : -1;
  }
  // Something is missing, and a replay is under way or about to be.
  bool Waits() const { return stream_.deadline() && *stream_.deadline() < now_ + seconds(20); }
  void Pass(Duration time) {
    now_ += time;
    stream_.Tick(now_);
  }
  // Connected to a publisher that has told 0 to `last`.
  void Follow(uint64_t last) {
    Connect();
    End();
    for (uint64_t n = 0; n <= last; ++n) Live(n);
    sink_.heard.clear();
  }
  std::vector<std::string> Heard() { return std::exchange(sink_.heard, {}); }

  MetricsRegistry registry_;
  EventMetrics metrics_{registry_};
  HeardSink sink_;
  EventStreamOptions options_{.has_replay = true};
  EventStream stream_{options_, sink_, metrics_};
  TimePoint now_{};
};

}  // namespace ember::router
