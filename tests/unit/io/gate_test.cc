#include "client/io/gate.h"

#include "tests/unit/io/loop_fixture.h"

namespace ember::io {
namespace {

class GateTest : public LoopTest {
 protected:
  Task<void> SleepThen(Duration duration, int* ended) {
    co_await loop().Sleep(duration);
    ++*ended;
  }
};

TEST_P(GateTest, CloseWaitsForEveryTask) {
  RunTask([&]() -> Task<void> {
    int ended = 0;
    Gate gate;
    for (int i = 1; i <= 5; ++i) gate.Spawn(SleepThen(milliseconds(i), &ended));
    EXPECT_EQ(gate.running(), 5u);
    co_await gate.Close();
    EXPECT_EQ(ended, 5);
    EXPECT_TRUE(gate.closed());
  });
}

TEST_P(GateTest, AnEmptyGateClosesAtOnce) {
  RunTask([&]() -> Task<void> {
    Gate gate;
    co_await gate.Close();
    EXPECT_EQ(gate.running(), 0u);
  });
}

TEST_P(GateTest, SpawnRunsUpToTheFirstSuspension) {
  RunTask([&]() -> Task<void> {
    int steps = 0;
    Gate gate;
    gate.Spawn([](Loop& loop, int* steps) -> Task<void> {
      ++*steps;
      co_await loop.Sleep(milliseconds(1));
      ++*steps;
    }(loop(), &steps));
    EXPECT_EQ(steps, 1);
    co_await gate.Close();
    EXPECT_EQ(steps, 2);
  });
}

EMBER_EVERY_LOOP(GateTest);

}  // namespace
}  // namespace ember::io
