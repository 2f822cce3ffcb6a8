// Real sockets: a scripted publisher, the subscriber, the feed and the index behind it; the oracle
// is the model of the publisher's cache.
#include "router/events/event_subscriber.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <future>

#include "router/events/event_feed.h"
#include "router/events/event_socket.h"
#include "tests/unit/router_events/engine_model.h"
#include "tests/unit/router_events/fake_publisher.h"
#include "tests/unit/support/eventually.h"
#include "tests/unit/support/loopback.h"

namespace ember::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Tokens = EngineModel::Tokens;

class EventSubscriberTest : public ::testing::Test {
 protected:
  ~EventSubscriberTest() override {
    subscriber_.reset();
    loop_.Stop();
  }

  // Runs on the loop, as everything that touches feed and index does.
  template <typename F>
  auto OnLoop(F work) {
    std::promise<decltype(work())> result;
    boost::asio::post(loop_.executor(), [&] { result.set_value(work()); });
    return result.get_future().get();
  }
  // The source's holder.
  HolderId Follow(const FakePublisher& publisher, bool replay = true) {
    return OnLoop([&] {
      source_ = subscriber_->Add(
          *EventEndpoint::Parse(publisher.address()),
          replay ? std::optional(*EventEndpoint::Parse(publisher.replay_address())) : std::nullopt);
      const HolderId holder = index_.AddHolder(HolderKind::kReplica);
      feed_.AddSource(source_, {.id = "r", .model = "m", .holders = {holder}}, 0);
      return holder;
    });
  }
  uint64_t Known(HolderId holder, const Tokens& tokens) {
    return OnLoop([&]() -> uint64_t {
      TokenizedPrompt prompt;
      prompt.model = "m";
      prompt.tokens = tokens;
      for (const GroupMatch& match : feed_.Match(prompt, EventFeed::Holders().set())) {
        if (match.holder == holder) return match.device_tokens;
      }
      return 0;
    });
  }
  // Whether the router knows exactly what the engine holds of these prompts.
  bool Agrees(HolderId holder, const EngineModel& engine, int first, int end) {
    for (int n = first; n < end; ++n) {
      if (Known(holder, PromptOf(n, 8)) != engine.Held(PromptOf(n, 8))) return false;
    }
    return true;
  }
  // Batches that each store a prompt of their own; those in [lost_from, lost_to) are lost.
  void PublishPrompts(FakePublisher& publisher, EngineModel& engine, int first, int end,
                      int lost_from = 0, int lost_to = 0) {
    for (int n = first; n < end; ++n) {
      publisher.Publish(engine.Store(PromptOf(n, 8)), n >= lost_from && n < lost_to);
    }
  }
  http::HttpLoop loop_{1};
  PrefixIndex index_{PrefixIndexOptions{}};
  SystemRandom random_;
  MetricsRegistry registry_;
  EventMetrics metrics_{registry_};
  EventFeed feed_{index_, random_, metrics_};
  EventSourceId source_ = 0;
  EventStreamOptions options_{.keys = EngineKeyFold(random_.Next())};
  std::unique_ptr<EventSubscriber> subscriber_ = Subscriber();

  // For tests in which only the machine is slow: nothing is done for want of an answer.
  void BePatient() {
    options_.first_answer = options_.stall = options_.longest_hold = seconds(3600);
    options_.attempts = 1'000'000;
    subscriber_ = Subscriber();
  }
  // For impatient tests: failed replays are given up within a second.
  void BeImpatient() {
    options_.first_answer = milliseconds(200);
    options_.stall = milliseconds(500);
    options_.first_pause = milliseconds(20);
    options_.first_resync = milliseconds(300);
    subscriber_ = Subscriber();
  }
  std::unique_ptr<EventSubscriber> Subscriber() {
    return std::make_unique<EventSubscriber>(loop_, feed_, metrics_, options_);
  }
};

// A1 with a replay; the router's start finds what was said before it.
TEST_F(EventSubscriberTest, LostBatchesAreReplayed) {
  FakePublisher publisher;
  EngineModel engine;
  PublishPrompts(publisher, engine, 0, 100);  // before anybody listens
  const HolderId holder = Follow(publisher);
  ASSERT_TRUE(publisher.WaitForSubscriber());
  ASSERT_TRUE(Eventually([&] { return Agrees(holder, engine, 0, 100); }));
  EXPECT_EQ(metrics_.gaps.value(), 0u);
  PublishPrompts(publisher, engine, 100, 1000, 400, 450);
  publisher.Publish(engine.Remove(PromptOf(420, 8), 1));
  EXPECT_TRUE(Eventually([&] { return Agrees(holder, engine, 0, 1000); }));
  EXPECT_EQ(metrics_.gaps.value(), 1u);
  EXPECT_EQ(metrics_.losses.value(), 0u);
  EXPECT_TRUE(Eventually([&] { return metrics_.untrusted.value() == 0; }));
  EXPECT_THAT(publisher.requests(), ElementsAre(0, 400));
}

// A1 without one: what is known goes, and what is told later counts.
TEST_F(EventSubscriberTest, WithoutAReplayAGapDropsEverything) {
  for (const bool dead : {true, false}) {
    BeImpatient();
    FakePublisher publisher;
    publisher.script.answers = !dead;
    EngineModel engine;
    const HolderId holder = Follow(publisher, dead);
    ASSERT_TRUE(publisher.WaitForSubscriber());
    const uint64_t gaps = metrics_.gaps.value();
    PublishPrompts(publisher, engine, 0, 100, 40, 45);
    PublishPrompts(publisher, engine, 100, 110);
    EXPECT_TRUE(Eventually([&] { return Known(holder, PromptOf(109, 8)) == 8; }));
    for (int n = 0; n < 45; ++n) EXPECT_EQ(Known(holder, PromptOf(n, 8)), 0u) << n;
    EXPECT_EQ(metrics_.gaps.value() - gaps, 1u);
    EXPECT_EQ(metrics_.untrusted.value(), 1);
    // Empty is known exactly.
    publisher.Publish(engine.Clear());
    EXPECT_TRUE(Eventually([&] { return metrics_.untrusted.value() == 0; }));
    EXPECT_EQ(OnLoop([&] { return index_.blocks_held(holder); }), 0u);
    OnLoop([&] { return feed_.RemoveSource(source_), 0; });
  }
}

// A2: both forms, with and without an end marker, and garbage.
TEST_F(EventSubscriberTest, ReplaysOfEveryFormAreUnderstood) {
  for (const bool topic : {false, true}) {
    for (const bool marker : {false, true}) {
      FakePublisher publisher;
      publisher.script.replay_topic = topic;
      publisher.script.end_marker = marker;
      publisher.script.garbage_replies = 1;
      EngineModel engine({.shape = topic ? EventShape::kArrays : EventShape::kMaps});
      PublishPrompts(publisher, engine, 0, 20);
      const HolderId holder = Follow(publisher);
      ASSERT_TRUE(publisher.WaitForSubscriber());
      EXPECT_TRUE(Eventually([&] { return Agrees(holder, engine, 0, 20); }));
      PublishPrompts(publisher, engine, 20, 40, 25, 30);
      EXPECT_TRUE(Eventually([&] { return Agrees(holder, engine, 0, 40); }));
    }
  }
  EXPECT_EQ(metrics_.malformed.value(), 4u);
}

// A3
TEST_F(EventSubscriberTest, ALongReplayMayStallAndBeCut) {
  BePatient();
  FakePublisher publisher;
  publisher.script.pause_after = 5000;
  EngineModel engine;
  const HolderId holder = Follow(publisher);
  ASSERT_TRUE(publisher.WaitForSubscriber());
  // Asked for before there was anything to bring.
  ASSERT_TRUE(Eventually([&] { return publisher.requests().size() == 1; }));
  PublishPrompts(publisher, engine, 0, 1);
  ASSERT_TRUE(Eventually([&] { return Agrees(holder, engine, 0, 1); }));
  for (int n = 1; n <= 10'000; ++n) publisher.Publish(engine.Store(PromptOf(n, 4)), true);
  PublishPrompts(publisher, engine, 10'001, 10'002);
  ASSERT_TRUE(Eventually([&] { return metrics_.batches.value() == 5001; }));
  publisher.script.resume = true;
  EXPECT_TRUE(Eventually([&] { return metrics_.batches.value() == 10'002; }));
  // Counted by the thread that reads, applied by the loop, the last one last.
  EXPECT_TRUE(Eventually([&] { return Known(holder, PromptOf(10'001, 8)) == 8u; }));
  EXPECT_EQ(Known(holder, PromptOf(1, 4)), 4u);
  EXPECT_EQ(Known(holder, PromptOf(10'000, 4)), 4u);
  EXPECT_THAT(publisher.requests(), ElementsAre(0, 1)) << "the stall needs no other request";

  // And one that is cut in the middle.
  publisher.script.cut_after = 400;
  for (int n = 1; n <= 1000; ++n) publisher.Publish(engine.Store(PromptOf(20'000 + n, 4)), true);
  PublishPrompts(publisher, engine, 30'000, 30'001);
  ASSERT_TRUE(Eventually([&] { return metrics_.batches.value() == 10'402; }));
  publisher.script.cut = true;
  EXPECT_TRUE(Eventually([&] { return metrics_.batches.value() == 11'003; }));
  EXPECT_EQ(publisher.requests().back(), 10'402u) << "only the rest is asked for";
  EXPECT_EQ(metrics_.losses.value(), 0u);
}

// A5
TEST_F(EventSubscriberTest, GapsBeyondTheBufferAreRecoveredOnceEach) {
  BePatient();
  FakePublisher publisher;
  publisher.script.buffer = 10;
  EngineModel engine;
  const HolderId holder = Follow(publisher);
  ASSERT_TRUE(publisher.WaitForSubscriber());
  // Not overtaken by the first batch, after which nothing needs to be asked for.
  ASSERT_TRUE(Eventually([&] { return publisher.requests().size() == 1; }));
  PublishPrompts(publisher, engine, 0, 10);
  ASSERT_TRUE(Eventually([&] { return Agrees(holder, engine, 0, 10); }));
  int next = 10;
  for (int round = 1; round <= 3; ++round) {
    PublishPrompts(publisher, engine, next, next + 101, next, next + 100);
    next += 101;
    ASSERT_TRUE(Eventually([&] { return Agrees(holder, engine, next - 10, next); }));
    EXPECT_EQ(Known(holder, PromptOf(next - 20, 8)), 0u);
    EXPECT_EQ(publisher.requests().size(), 1u + static_cast<size_t>(round));
  }
  PublishPrompts(publisher, engine, next, next + 300);
  EXPECT_TRUE(Eventually([&] { return Agrees(holder, engine, next, next + 300); }));
  EXPECT_EQ(publisher.requests().size(), 4u);
  EXPECT_EQ(metrics_.losses.value(), 3u);
  EXPECT_EQ(metrics_.untrusted.value(), 1) << "what was stored before may be held still";
}

// A7
TEST_F(EventSubscriberTest, APublisherThatRestartsOnItsAddressStartsEmpty) {
  const std::string address = "tcp://" + OwnLoopbackAddress() + ":40557";
  const std::string replay = "tcp://" + OwnLoopbackAddress() + ":40558";
  auto publisher = std::make_unique<FakePublisher>(true, address, replay);
  EngineModel engine;
  const HolderId holder = Follow(*publisher);
  ASSERT_TRUE(publisher->WaitForSubscriber());
  PublishPrompts(*publisher, engine, 0, 20);
  ASSERT_TRUE(Eventually([&] { return Agrees(holder, engine, 0, 20); }));

  publisher.reset();
  publisher = std::make_unique<FakePublisher>(true, address, replay);
  EngineModel fresh;
  PublishPrompts(*publisher, fresh, 100, 150);  // further than the first one ever was
  EXPECT_TRUE(Eventually([&] { return Agrees(holder, fresh, 0, 150); }));
  EXPECT_EQ(metrics_.restarts.value(), 1u);
  EXPECT_TRUE(Eventually([&] { return metrics_.untrusted.value() == 0; }));

  // In place, without a new connection.
  ASSERT_TRUE(publisher->WaitForSubscriber());
  publisher->set_next_sequence(0);
  EngineModel again;
  PublishPrompts(*publisher, again, 200, 205);
  EXPECT_TRUE(Eventually([&] { return Agrees(holder, again, 200, 205); }));
  EXPECT_EQ(Known(holder, PromptOf(120, 8)), 0u);
}

// A7: what was queued before the removal brings nothing back.
TEST_F(EventSubscriberTest, ARemovedSourceIsNotHeard) {
  FakePublisher publisher;
  EngineModel engine;
  const HolderId holder = Follow(publisher);
  ASSERT_TRUE(publisher.WaitForSubscriber());
  PublishPrompts(publisher, engine, 0, 2000);
  OnLoop([&] {
    subscriber_->Remove(source_);
    feed_.RemoveSource(source_);
    return index_.ClearHolder(holder), 0;
  });
  EXPECT_EQ(OnLoop([&] { return index_.blocks_held(holder); }), 0u);
  ASSERT_TRUE(Eventually([&] { return metrics_.sources.value() == 0; }));
  EXPECT_EQ(OnLoop([&] { return index_.blocks_held(holder); }), 0u);
}

// A8
TEST_F(EventSubscriberTest, ClearedEmptiesAtOnce) {
  FakePublisher publisher;
  EngineModel engine;
  const HolderId holder = Follow(publisher);
  ASSERT_TRUE(publisher.WaitForSubscriber());
  PublishPrompts(publisher, engine, 0, 50);
  publisher.Publish(engine.Clear());
  PublishPrompts(publisher, engine, 50, 60);
  EXPECT_TRUE(Eventually([&] { return Agrees(holder, engine, 0, 60); }));
  EXPECT_EQ(OnLoop([&] { return index_.blocks_held(holder); }), 20u);
}

// Reliability: hostile publishers.
TEST_F(EventSubscriberTest, GarbageIsDroppedAndOthersAreHeard) {
  FakePublisher hostile(false);
  FakePublisher good;
  EngineModel engine;
  Follow(hostile, false);
  const HolderId holder = Follow(good);
  ASSERT_TRUE(hostile.WaitForSubscriber());
  ASSERT_TRUE(good.WaitForSubscriber());
  const std::string eight(8, '\0');
  for (const std::vector<std::string>& frames : std::vector<std::vector<std::string>>{
           {"", eight, std::string("\xdd\xff\xff\xff\xff", 5)},
           {"", eight.substr(1) + "\x01", std::string(10'000, '\x91')},
           {"", eight.substr(1) + "\x02", std::string("\x93\xc0\xdb\xff\xff\xff\xff", 7)},
           {"", eight.substr(1) + "\x03", std::string(EventSocket::kMaxFrameBytes - 1, '\x90')},
           {"one"},
       }) {
    hostile.SendFrames(frames);
  }
  EXPECT_TRUE(Eventually([&] { return metrics_.malformed.value() == 1; }));
  // It is connected to again, later and later; a frame beyond the limit ends the connection too.
  ASSERT_TRUE(hostile.WaitForSubscriber());
  hostile.SendFrames(std::vector<std::string>(5000, "x"));
  ASSERT_TRUE(hostile.WaitForSubscriber());
  hostile.SendFrames({"", eight, std::string(EventSocket::kMaxFrameBytes + 1, 'x')});
  ASSERT_TRUE(hostile.WaitForSubscriber());
  PublishPrompts(good, engine, 0, 20);
  EXPECT_TRUE(Eventually([&] { return Agrees(holder, engine, 0, 20); }));
}

// Bytes that are no ZeroMQ at all, at every connection.
TEST_F(EventSubscriberTest, AnythingMayListenAtThePublishersPort) {
  boost::asio::io_context context;
  boost::asio::ip::tcp::acceptor acceptor(context, {boost::asio::ip::address_v4::loopback(), 0});
  const std::string address = "tcp://127.0.0.1:" + std::to_string(acceptor.local_endpoint().port());
  SeededRandom random(3);
  const EventSourceId source =
      subscriber_->Add(*EventEndpoint::Parse(address), *EventEndpoint::Parse(address));
  for (int i = 0; i < 6; ++i) {
    boost::asio::ip::tcp::socket socket = acceptor.accept();
    // A greeting that goes on with noise, noise alone, and nothing.
    std::string bytes =
        i % 3 == 0 ? std::string("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16) + std::string(48, '\0')
                   : "";
    for (int n = 0; i % 3 != 2 && n < 4000; ++n) bytes.push_back(static_cast<char>(random.Next()));
    boost::system::error_code ignored;
    boost::asio::write(socket, boost::asio::buffer(bytes), ignored);
  }
  subscriber_->Remove(source);
  FakePublisher good;
  EngineModel engine;
  const HolderId holder = Follow(good);
  ASSERT_TRUE(good.WaitForSubscriber());
  PublishPrompts(good, engine, 0, 20);
  EXPECT_TRUE(Eventually([&] { return Agrees(holder, engine, 0, 20); }));
}

// vLLM CVE-2025-30202: whoever doesn't read must not hold the engine up.
TEST_F(EventSubscriberTest, AFrozenRouterNeverSlowsThePublisher) {
  FakePublisher publisher;
  publisher.script.buffer = 1000;
  EngineModel engine;
  const HolderId holder = Follow(publisher);
  ASSERT_TRUE(publisher.WaitForSubscriber());
  PublishPrompts(publisher, engine, 0, 1);
  ASSERT_TRUE(Eventually([&] { return Agrees(holder, engine, 0, 1); }));
  std::promise<void> frozen;
  std::promise<void> thaw;
  boost::asio::post(loop_.executor(), [&] {
    frozen.set_value();
    thaw.get_future().wait();
  });
  frozen.get_future().wait();
  // Every send returns at once, whatever the router does; 20,000 batches of a kilobyte each are
  // more than any queue of ours takes.
  const Tokens padding = PromptOf(1'000'000, 256);
  for (int n = 0; n < 20'000; ++n) {
    publisher.Publish(engine.Batch({engine.StoredEvent({uint64_t(n) << 32}, 12345, padding)}));
  }
  publisher.Publish(engine.Clear());
  PublishPrompts(publisher, engine, 1, 20);
  thaw.set_value();
  EXPECT_TRUE(Eventually([&] { return Agrees(holder, engine, 0, 20); }, seconds(30)));
}

// Removals, replays and losses at random, against the model.
TEST_F(EventSubscriberTest, AStormOfEventsWithLossesEndsInAgreement) {
  FakePublisher publisher;
  EngineModel engine({.form = HashForm::kBytes32});
  const HolderId holder = Follow(publisher);
  ASSERT_TRUE(publisher.WaitForSubscriber());
  SeededRandom random(11);
  for (int i = 0; i < 5000; ++i) {
    const int prompt = static_cast<int>(random.Next() % 40);
    const bool lost = random.Next() % 10 == 0;
    switch (random.Next() % 5) {
      case 0:
        publisher.Publish(engine.Remove(PromptOf(prompt, 8), random.Next() % 2), lost);
        break;
      case 1:
        if (random.Next() % 50 == 0) publisher.Publish(engine.Clear(), lost);
        break;
      default:
        publisher.Publish(engine.Store(PromptOf(prompt, 4 + 4 * (random.Next() % 2))), lost);
    }
  }
  publisher.Publish(engine.Store(PromptOf(50, 8)));
  EXPECT_TRUE(Eventually([&] { return Agrees(holder, engine, 0, 51); }));
  EXPECT_EQ(metrics_.losses.value(), 0u);
}

}  // namespace
}  // namespace ember::router
