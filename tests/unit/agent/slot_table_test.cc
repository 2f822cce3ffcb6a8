#include "client/agent/slot_table.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>

namespace ember::agent {
namespace {

class SlotTableTest : public ::testing::Test {
 protected:
  using Got = std::shared_ptr<std::optional<Result<SlotTable::Lease>>>;

  // Starts an Acquire and lets everything run that can.
  Got Ask(std::vector<TokenId> prompt, Duration timeout = seconds(60),
          http::Cancellation* gone = nullptr) {
    auto got = std::make_shared<std::optional<Result<SlotTable::Lease>>>();
    boost::asio::co_spawn(
        context_,
        [](SlotTable& table, std::vector<TokenId> p, Duration t, http::Cancellation* g,
           Got out) -> boost::asio::awaitable<void> {
          out->emplace(co_await table.Acquire(std::move(p), 2, t, g));
        }(table_, std::move(prompt), timeout, gone, got),
        boost::asio::detached);
    Turn();
    return got;
  }
  void Turn() {
    context_.restart();
    while (context_.poll() > 0) {
    }
  }
  SlotTable::Lease Take(std::vector<TokenId> prompt) {
    Got got = Ask(std::move(prompt));
    EXPECT_TRUE(got->has_value() && (*got)->ok());
    return std::move(**got).value();
  }
  void Hold(std::vector<TokenId> tokens) {
    SlotTable::Lease lease = Take({});
    lease.SetContent({true, std::move(tokens)});
  }

  std::vector<uint32_t> changes_;
  SlotTable table_{2, [this](uint32_t slot) { changes_.push_back(slot); }};
  boost::asio::io_context context_;  // suspended coroutines die first
};

TEST_F(SlotTableTest, ChoosesTheLongestPrefixElseTheLeastRecentlyUsed) {
  table_.Resize(2);
  Hold({1, 2, 3, 4});  // slot 0
  Hold({1, 2, 9});     // slot 1
  EXPECT_EQ(Take({1, 2, 3, 5}).slot(), 0u);
  EXPECT_EQ(Take({1, 2, 9, 9}).slot(), 1u);
  EXPECT_EQ(Take({1, 7}).slot(), 0u);  // one token in common is too few
}

TEST_F(SlotTableTest, WaitsInLineAndIsServedInOrder) {
  table_.Resize(1);
  auto lease = std::make_optional(Take({1}));
  Got first = Ask({1}), second = Ask({2});
  EXPECT_FALSE(first->has_value());
  EXPECT_EQ(table_.waiting(), 2u);
  lease.reset();
  Turn();
  ASSERT_TRUE(first->has_value() && (*first)->ok());
  EXPECT_FALSE(second->has_value());
  first->reset();
  Turn();
  ASSERT_TRUE(second->has_value() && (*second)->ok());
}

TEST_F(SlotTableTest, SaysWhoWouldWaitForASlotWithOtherContents) {
  table_.Resize(2);
  Hold({1, 2, 3});
  EXPECT_FALSE(table_.WouldWait(std::vector<TokenId>{7}, 2)) << "two are idle";
  SlotTable::Lease mine = Take({1, 2, 3}), other = Take({5, 6});
  EXPECT_TRUE(table_.WouldWait(std::vector<TokenId>{1, 2, 3}, 2)) << "it is busy";
  mine.BeginEnding();
  EXPECT_FALSE(table_.WouldWait(std::vector<TokenId>{1, 2, 3}, 2)) << "only until it is saved";
  EXPECT_TRUE(table_.WouldWait(std::vector<TokenId>{7}, 2));
}

TEST_F(SlotTableTest, AFullLineIsBusyAtOnce) {
  table_.Resize(1);
  const SlotTable::Lease lease = Take({1});
  Got first = Ask({1}), second = Ask({1}), third = Ask({1});
  ASSERT_TRUE(third->has_value());
  EXPECT_EQ((*third)->status().code(), StatusCode::kBusy);
  EXPECT_FALSE(first->has_value() || second->has_value());
}

TEST_F(SlotTableTest, AWaiterThatLeavesDoesNotTakeTheSlotWithIt) {
  table_.Resize(1);
  auto lease = std::make_optional(Take({1}));
  http::Cancellation gone;
  Got leaver = Ask({1}, seconds(60), &gone), stayer = Ask({1});
  gone.Cancel();
  Turn();
  ASSERT_TRUE(leaver->has_value());
  EXPECT_EQ((*leaver)->status().code(), StatusCode::kCancelled);
  lease.reset();
  Turn();
  ASSERT_TRUE(stayer->has_value());
  EXPECT_TRUE((*stayer)->ok());
}

TEST_F(SlotTableTest, AWaiterGrantedASlotWhileItLeavesGivesItOn) {
  table_.Resize(1);
  auto lease = std::make_optional(Take({1}));
  http::Cancellation gone;
  Got leaver = Ask({1}, seconds(60), &gone), stayer = Ask({1});
  lease.reset();
  gone.Cancel();
  Turn();
  EXPECT_EQ((*leaver)->status().code(), StatusCode::kCancelled);
  ASSERT_TRUE(stayer->has_value());
  EXPECT_TRUE((*stayer)->ok());
}

TEST_F(SlotTableTest, WaitsNoLongerThanAsked) {
  table_.Resize(1);
  const SlotTable::Lease lease = Take({1});
  Got got = Ask({1}, milliseconds(1));
  context_.restart();
  context_.run();
  ASSERT_TRUE(got->has_value());
  EXPECT_EQ((*got)->status().code(), StatusCode::kDeadline);
  EXPECT_EQ(table_.waiting(), 0u);
}

TEST_F(SlotTableTest, TheNextTurnWaitsForItsSlotsSaveRatherThanTakeAnother) {
  table_.Resize(2);
  auto lease = std::make_optional(Take({1, 2, 3}));
  lease->SetContent({true, {1, 2, 3}});
  Got running = Ask({1, 2, 3, 4});  // the slot may be busy for long: another one
  ASSERT_TRUE(running->has_value());
  EXPECT_NE(running->value()->slot(), lease->slot());
  running->reset();
  lease->BeginEnding();
  Got next = Ask({1, 2, 3, 4});
  EXPECT_FALSE(next->has_value());
  Got other = Ask({7, 8, 9});  // nothing to gain by waiting
  ASSERT_TRUE(other->has_value());
  const uint32_t slot = lease->slot();
  lease.reset();
  Turn();
  ASSERT_TRUE(next->has_value());
  EXPECT_EQ(next->value()->slot(), slot);
}

TEST_F(SlotTableTest, DroppedBeliefsStayDroppedUntilSomethingNewerIsLearned) {
  table_.Resize(1);
  SlotTable::Lease lease = Take({});
  lease.SetContent({true, {1, 2}});
  changes_.clear();
  table_.DropAll();
  EXPECT_FALSE(table_.content(0).known);
  EXPECT_EQ(changes_, std::vector<uint32_t>{0});
  lease.SetContent({true, {1, 2, 3}});  // may have been read before the drop
  EXPECT_FALSE(table_.content(0).known);
  lease.BeginEnding();
  lease.SetContent({true, {1, 2, 3}});
  EXPECT_TRUE(table_.content(0).known);
}

TEST_F(SlotTableTest, FewerSlotsAfterARestartAreNotHandedOut) {
  table_.Resize(2);
  auto a = std::make_optional(Take({}));
  auto b = std::make_optional(Take({}));
  table_.Resize(1);
  a.reset();
  b.reset();
  SlotTable::Lease lease = Take({});
  EXPECT_EQ(lease.slot(), 0u);
  EXPECT_FALSE(Ask({})->has_value());
}

}  // namespace
}  // namespace ember::agent
