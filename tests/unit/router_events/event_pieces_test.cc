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
  size_t largest = 0;  // blocks of tokens
  size_t heard = 0;    // keys

 private:
  http::HttpLoop& loop_;
  size_t piece_ = 0;
};

// An event of a recurrent state has one key for any number of blocks.
TEST(EventPieces, AreBoundedByWork) {
  http::HttpLoop loop(1);
  const auto on_loop = [&loop](auto work) {
    std::promise<decltype(work())> result;
    boost::asio::post(loop.executor(), [&] { result.set_value(work()); });
    return result.get_future().get();
  };
  HeardPieces pieces(loop);
  MetricsRegistry registry;
  EventMetrics metrics(registry);
  auto subscriber = std::make_unique<EventSubscriber>(loop, pieces, metrics, EventStreamOptions());
  FakePublisher publisher(false);
  subscriber->Add(*EventEndpoint::Parse(publisher.address()), std::nullopt);
  ASSERT_TRUE(publisher.WaitForSubscriber());
  const auto event = [](size_t blocks, uint64_t hash) {
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
  };
  std::vector<std::string> events;
  for (uint64_t i = 0; i < 100; ++i) events.push_back(event(i % 10 == 0 ? 2000 : 100, i));
  publisher.Publish(EngineModel().Batch(events));
  EXPECT_TRUE(Eventually([&] { return on_loop([&] { return pieces.heard == 100; }); }));
  // One event is never cut; and a piece may be on the loop before the end of the last is noted.
  const size_t largest = on_loop([&] { return pieces.largest; });
  EXPECT_GE(largest, 2000u);
  EXPECT_LE(largest, 2 * 2000u) << "all are 29,000";
  subscriber.reset();
  loop.Stop();
}

}  // namespace
}  // namespace ember::router
