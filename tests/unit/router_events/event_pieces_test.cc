// How much the loop is given to do at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <future>
#include <utility>

#include "router/events/event_subscriber.h"
#include "tests/unit/router_events/engine_model.h"
#include "tests/unit/router_events/fake_publisher.h"
#include "tests/unit/support/eventually.h"

namespace ember::router {
namespace {

// Hears whole pieces: what the loop does at once.
class HeardPieces final : public EventListener {
 public:
  explicit HeardPieces(http::HttpLoop& loop) : loop_(loop) {}
  void OnStored(EventSourceId, std::optional<uint32_t>, const KvStored& event) override {
    if (piece_ == 0) {
      boost::asio::post(loop_.executor(),
                        [this] { largest = std::max(largest, std::exchange(piece_, 0)); });
    }
    piece_ += event.tokens.size() / event.block_size;
    heard += event.keys.size();
  }
  void OnRemoved(EventSourceId, std::optional<uint32_t>, const KvRemoved&) override {}
  void OnCleared(EventSourceId, std::optional<uint32_t>) override {}
  void OnLost(EventSourceId, const Status&) override {}
  void OnConnection(EventSourceId, bool) override {}
  void OnTrusted(EventSourceId) override {}
  size_t TakeFurtherWork() override { return further; }
  size_t further = 0;  // work of each event
  size_t largest = 0;  // blocks of tokens
  size_t heard = 0;    // keys

 private:
  http::HttpLoop& loop_;
  size_t piece_ = 0;
};

class EventPieces : public testing::Test {
 protected:
  ~EventPieces() override {
    subscriber_.reset();
    loop_.Stop();
  }
  // Publishes these and says how large the largest piece was.
  size_t LargestOf(const std::vector<std::string>& events) {
    subscriber_->Add(*EventEndpoint::Parse(publisher_.address()), std::nullopt);
    EXPECT_TRUE(publisher_.WaitForSubscriber());
    publisher_.Publish(EngineModel().Batch(events));
    EXPECT_TRUE(Eventually([&] { return OnLoop([&] { return pieces_.heard; }) == events.size(); }));
    return OnLoop([&] { return pieces_.largest; });
  }
  // Of a recurrent state, which has one key for any number of blocks.
  static std::string Event(size_t blocks, uint64_t hash) {
    MsgpackWriter e;
    e.Map(6).Text("type").Text("BlockStored").Text("block_hashes").Array(1).Unsigned(hash);
    e.Text("token_ids").Array(blocks);
    for (size_t t = 0; t < blocks; ++t) e.Unsigned(t % 100);
    return e.Text("block_size")
        .Unsigned(1)
        .Text("group_idx")
        .Unsigned(1)
        .Text("kv_cache_spec_kind")
        .Text("mamba")
        .str();
  }

  http::HttpLoop loop_{1};
  HeardPieces pieces_{loop_};

 private:
  size_t OnLoop(const std::function<size_t()>& work) {
    std::promise<size_t> result;
    boost::asio::post(loop_.executor(), [&] { result.set_value(work()); });
    return result.get_future().get();
  }

  MetricsRegistry registry_;
  EventMetrics metrics_{registry_};
  FakePublisher publisher_{false};
  std::unique_ptr<EventSubscriber> subscriber_ =
      std::make_unique<EventSubscriber>(loop_, pieces_, metrics_, EventStreamOptions());
};

TEST_F(EventPieces, AreBoundedByWork) {
  std::vector<std::string> events;
  for (uint64_t i = 0; i < 100; ++i) events.push_back(Event(i % 10 == 0 ? 2000 : 100, i));
  const size_t largest = LargestOf(events);
  // One event is never cut; and a piece may be on the loop before the end of the last is noted.
  EXPECT_GE(largest, 2000u);
  EXPECT_LE(largest, 2 * 2000u) << "all are 29,000";
}

TEST_F(EventPieces, OfManySmallEventsTheWorkIsAddedUp) {
  std::vector<std::string> events;
  for (uint64_t i = 0; i < 100; ++i) events.push_back(Event(100, i));
  EXPECT_LE(LargestOf(events), 2 * 512u) << "all are 10,000";
}

TEST_F(EventPieces, AreBoundedByWorkThatOnlyTheListenerKnows) {
  pieces_.further = 200;
  std::vector<std::string> events;
  for (uint64_t i = 0; i < 100; ++i) events.push_back(Event(1, i));
  EXPECT_LE(LargestOf(events), 2 * 3u) << "three of them are 600";
}

}  // namespace
}  // namespace ember::router
