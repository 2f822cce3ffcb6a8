// What people are told of a replica's events, over real sockets.
#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <future>

#include "router/events/event_feed.h"
#include "router/events/event_subscriber.h"
#include "tests/unit/router_events/engine_model.h"
#include "tests/unit/router_events/fake_publisher.h"
#include "tests/unit/support/eventually.h"

namespace ember::router {
namespace {

TEST(EventState, AWrongPortCanBeToldFromASilentEngine) {
  http::HttpLoop loop{1};
  PrefixIndex index{PrefixIndexOptions{}};
  SystemRandom random;
  MetricsRegistry registry;
  EventMetrics metrics{registry};
  EventFeed feed{index, random, metrics};
  auto subscriber = std::make_unique<EventSubscriber>(
      loop, feed, metrics, EventStreamOptions{.keys = EngineKeyFold(random.Next())});
  const auto on_loop = [&](auto work) {
    std::promise<decltype(work())> result;
    boost::asio::post(loop.executor(), [&] { result.set_value(work()); });
    return result.get_future().get();
  };
  const auto follow = [&](const std::string& address) {
    return on_loop([&] {
      const EventSourceId source = subscriber->Add(*EventEndpoint::Parse(address), std::nullopt);
      const HolderId holder = index.AddHolder(HolderKind::kReplica);
      feed.AddSource(source, {.id = "r", .model = "m", .holders = {holder}}, 0);
      return holder;
    });
  };
  const auto is = [&](HolderId holder, std::string_view state) {
    return Eventually([&] { return on_loop([&] { return feed.StateOf(holder) == state; }); });
  };

  auto publisher = std::make_unique<FakePublisher>(false);
  const HolderId silent = follow(publisher->address());
  const HolderId wrong = follow("tcp://127.0.0.1:1");
  const HolderId other = on_loop([&] { return index.AddHolder(HolderKind::kReplica); });
  EXPECT_TRUE(is(silent, "silent"));
  EXPECT_TRUE(is(wrong, "unreachable"));
  EXPECT_TRUE(is(other, "none"));
  EngineModel engine;
  ASSERT_TRUE(Eventually([&] { return publisher->WaitForSubscriber(); }));
  publisher->Publish(engine.Store(PromptOf(1, 8)));
  EXPECT_TRUE(is(silent, "whole"));
  publisher.reset();
  EXPECT_TRUE(is(silent, "unreachable"));
  EXPECT_TRUE(is(wrong, "unreachable"));
  subscriber.reset();
  loop.Stop();
}

}  // namespace
}  // namespace ember::router
