#include <gmock/gmock.h>

#include "tests/unit/io/loop_fixture.h"

namespace ember::io {
namespace {

class TimerTest : public LoopTest {
 protected:
  using TimerPtr = std::unique_ptr<Loop::Timer>;
};

TEST_P(TimerTest, FireInOrderOfTimeAndThenOfStart) {
  std::vector<int> fired;
  RunTask([&]() -> Task<void> {
    const TimePoint now = loop().Now();
    std::vector<TimerPtr> timers;
    for (const auto& [ms, id] :
         {std::pair{9, 5}, {3, 2}, {3, 3}, {0, 0}, {6, 4}, {-5, -1}, {1, 1}}) {
      timers.push_back(
          loop().StartTimer(now + milliseconds(ms), [&fired, id = id] { fired.push_back(id); }));
    }
    co_await loop().Sleep(milliseconds(12));
    EXPECT_THAT(fired, testing::ElementsAre(-1, 0, 1, 2, 3, 4, 5));
  });
}

TEST_P(TimerTest, NeverFireEarlyOnABusyLoop) {
  RunTask([&]() -> Task<void> {
    bool done = false;
    Gate gate;
    // Keeps the loop turning, so that it looks at its timers long before they are due.
    gate.Spawn([](Loop& loop, bool* done) -> Task<void> {
      while (!*done) co_await loop.Sleep(Duration::zero());
    }(loop(), &done));
    for (int i = 0; i < 20; ++i) {
      const TimePoint due = loop().Now() + microseconds(300 * i);
      co_await loop().Sleep(microseconds(300 * i));
      EXPECT_GE(loop().Now(), due);
    }
    done = true;
    co_await gate.Close();
  });
}

TEST_P(TimerTest, DestroyingCancelsEvenWhenDue) {
  RunTask([&]() -> Task<void> {
    bool fired = false;
    TimerPtr later = loop().StartTimer(loop().Now() + milliseconds(1), [&] { fired = true; });
    TimerPtr victim;
    // Both are due in the same round, and the first cancels the second.
    TimerPtr killer = loop().StartTimer(loop().Now() + milliseconds(1), [&] { victim.reset(); });
    victim = loop().StartTimer(loop().Now() + milliseconds(1), [&] { fired = true; });
    later.reset();
    const TimePoint until = loop().Now() + milliseconds(4);
    while (loop().Now() < until) {
    }
    co_await loop().Sleep(milliseconds(1));
    EXPECT_EQ(victim, nullptr);
    EXPECT_FALSE(fired);
  });
}

TEST_P(TimerTest, MayDestroyOrRestartItself) {
  RunTask([&]() -> Task<void> {
    int fired = 0;
    TimerPtr timer;
    std::function<void()> again = [&] {
      timer.reset();
      if (++fired < 5) timer = loop().StartTimer(loop().Now(), again);
    };
    timer = loop().StartTimer(loop().Now(), again);
    co_await loop().Sleep(milliseconds(20));
    EXPECT_EQ(fired, 5);
  });
}

TEST_P(TimerTest, ThousandsOfSleepersWake) {
  RunTask([&]() -> Task<void> {
    int awake = 0;
    Gate gate;
    for (int i = 0; i < 5000; ++i) {
      gate.Spawn([](Loop& loop, int i, int* awake) -> Task<void> {
        co_await loop.Sleep(microseconds(i % 7 * 500));
        ++*awake;
      }(loop(), i, &awake));
    }
    co_await gate.Close();
    EXPECT_EQ(awake, 5000);
  });
}

EMBER_EVERY_LOOP(TimerTest);

}  // namespace
}  // namespace ember::io
