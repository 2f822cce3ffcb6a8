// Waiting for room: order, bounds, and what becomes of those who leave.
#include "router/admission/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <future>

#include "client/http/loop.h"
#include "tests/unit/support/eventually.h"

namespace ember::router {
namespace {

using testing::HasSubstr;

// A place with `room` for so many, and requests that want it.
class Place {
 public:
  explicit Place(AdmissionOptions options = {}, int room = 0)
      : room_(room), admission_(loop_.executor(), options, metrics_) {}
  ~Place() { loop_.Stop(); }

  void OnLoop(const std::function<void()>& work) {
    std::promise<void> done;
    boost::asio::post(loop_.executor(), [&] {
      work();
      done.set_value();
    });
    done.get_future().get();
  }
  // Comes and waits; its name is written down when it goes in.
  void Come(const std::string& tenant, const std::string& name, http::Cancellation* gone = nullptr,
            size_t bytes = 0) {
    OnLoop([&] { loop_.Spawn(Enter(tenant, name, gone, bytes)); });
    OnLoop([] {});  // it has begun
  }
  void Leave() {
    OnLoop([&] {
      ++room_;
      admission_.OnServed();
      admission_.OnRoom();
    });
  }
  std::vector<std::string> Log() {
    std::vector<std::string> log;
    OnLoop([&] { log = log_; });
    return log;
  }
  // A replica comes or goes.
  void Change() {
    OnLoop([&] { admission_.OnRoom(); });
  }
  bool AwaitLog(const std::vector<std::string>& log) {
    return Eventually([&] { return Log() == log; });
  }
  std::string Metrics() const { return metrics_.RenderPrometheusText(); }
  int RetryAfter() {
    int seconds = 0;
    OnLoop([&] { seconds = admission_.RetryAfterSeconds(); });
    return seconds;
  }

 private:
  boost::asio::awaitable<void> Enter(std::string tenant, std::string name, http::Cancellation* gone,
                                     size_t bytes) {
    http::Cancellation never;
    while (!admission_.idle() || room_ == 0) {
      const Status waited = co_await admission_.Wait(
          {.whose = {tenant, ""}, .bytes = bytes, .may_go = [this] { return room_ > 0; }},
          gone == nullptr ? never : *gone);
      if (waited.ok()) break;
      log_.push_back(name + " " + std::string(StatusCodeName(waited.code())));
      co_return;
    }
    EXPECT_GT(room_, 0) << name;
    --room_;
    log_.push_back(name);
  }

  int room_;
  std::vector<std::string> log_;
  MetricsRegistry metrics_;
  http::HttpLoop loop_;
  Admission admission_;
};

using Log = std::vector<std::string>;

TEST(Admission, WhoFindsRoomGoesInAndOthersFollowAsItComesUp) {
  Place place({}, 1);
  for (const char* name : {"1", "2", "3"}) place.Come("t", name);
  EXPECT_EQ(place.Log(), Log{"1"});
  place.Leave();
  ASSERT_TRUE(place.AwaitLog({"1", "2"}));
  place.Leave();
  ASSERT_TRUE(place.AwaitLog({"1", "2", "3"}));
}

TEST(Admission, SeveralPlacesAtOnceAreAllTaken) {
  Place place;
  for (const char* name : {"1", "2", "3", "4"}) place.Come("t", name);
  for (int i = 0; i < 3; ++i) place.Leave();
  ASSERT_TRUE(place.AwaitLog({"1", "2", "3"}));
}

TEST(Admission, RetryAfterIsByWhatWasServed) {
  Place place;
  for (const char* name : {"1", "2", "3", "4"}) place.Come("t", name);
  for (int i = 0; i < 1000; ++i) place.Change();
  EXPECT_GE(place.RetryAfter(), 5) << "nothing was";
  for (int i = 0; i < 3; ++i) place.Leave();
  ASSERT_TRUE(place.AwaitLog({"1", "2", "3"}));
  const int of_one = place.RetryAfter();
  EXPECT_LT(of_one, 5);
  for (const char* name : {"5", "6", "7"}) place.Come("t", name);
  EXPECT_GT(place.RetryAfter(), of_one) << "more wait before whoever comes then";
}

TEST(Admission, TenantsTakeTurns) {
  Place place;
  for (int i = 0; i < 100; ++i) place.Come("flood", "f" + std::to_string(i));
  place.Come("one", "mine");
  for (int i = 0; i < 40; ++i) place.Leave();
  ASSERT_TRUE(Eventually([&] { return place.Log().size() == 40; }));
  const Log log = place.Log();
  EXPECT_NE(std::find(log.begin(), log.end(), "mine"), log.end());
}

// A prompt's length is its cost.
TEST(Admission, WhoSendsLongPromptsGetsFewerTurns) {
  Place place;
  for (int i = 0; i < 30; ++i) {
    place.Come("long", "l", nullptr, 10 * 4096 - 1);  // ten times a short one
    place.Come("short", "s");
  }
  for (int i = 0; i < 22; ++i) place.Leave();
  ASSERT_TRUE(Eventually([&] { return place.Log().size() == 22; }));
  const Log log = place.Log();
  EXPECT_NEAR(static_cast<double>(std::count(log.begin(), log.end(), "l")), 2, 1);
}

TEST(Admission, TheQueueIsBoundedInNumberAndTime) {
  Place place({.max_waiting = 2, .max_wait = milliseconds(50)});
  for (const char* name : {"1", "2", "3"}) place.Come("t", name);
  EXPECT_EQ(place.Log(), Log{"3 busy"});
  EXPECT_GE(place.RetryAfter(), 3) << "nothing drains";
  ASSERT_TRUE(place.AwaitLog({"3 busy", "1 deadline", "2 deadline"}));
  EXPECT_EQ(place.RetryAfter(), 1) << "nobody waits";
  EXPECT_THAT(place.Metrics(), HasSubstr("queue_refused_total{reason=\"full\"} 1\n"));
  EXPECT_THAT(place.Metrics(), HasSubstr("queue_refused_total{reason=\"deadline\"} 2\n"));
}

// Who waits for one place holds back nobody who may go elsewhere, and neither fills their queue.
TEST(Admission, WhoMayGoElsewhereNeedNotWaitBehindThem) {
  MetricsRegistry metrics;
  http::HttpLoop loop;
  Admission admission(loop.executor(), {.max_waiting = 1}, metrics);
  http::Cancellation gone;
  const auto wait = [&](size_t place, bool room) {
    return boost::asio::co_spawn(
        loop.executor(),
        admission.Wait(
            {.whose = {"t", ""}, .places = Places().set(place), .may_go = [=] { return room; }},
            gone),
        boost::asio::use_future);
  };
  auto full = wait(1, false);
  EXPECT_EQ(wait(1, false).get().code(), StatusCode::kBusy);
  EXPECT_TRUE(wait(2, true).get().ok());
  std::promise<void> done;
  boost::asio::post(loop.executor(), [&] {
    EXPECT_TRUE(admission.idle(Places().set(2)));
    EXPECT_FALSE(admission.idle(Places().set(1).set(2)));
    EXPECT_FALSE(admission.idle());
    gone.Cancel();
    done.set_value();
  });
  done.get_future().get();
  EXPECT_EQ(full.get().code(), StatusCode::kCancelled);
  loop.Stop();
}

TEST(Admission, WhoseClientLeftWaitsNoLongerAndHoldsNobodyUp) {
  Place place;
  http::Cancellation gone;
  place.Come("t", "1", &gone);
  place.Come("t", "2");
  place.OnLoop([&] { gone.Cancel(); });
  ASSERT_TRUE(place.AwaitLog({"1 cancelled"}));
  place.Leave();
  ASSERT_TRUE(place.AwaitLog({"1 cancelled", "2"}));
}

}  // namespace
}  // namespace ember::router
