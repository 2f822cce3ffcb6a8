#include "kvstore/server/reuse_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

namespace ember::kv::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ReuseWatchTest : public ::testing::Test {
 protected:
  ReuseWatchTest() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_)));
  }
  ~ReuseWatchTest() override { spdlog::set_default_logger(before_); }
  void Store(uint64_t count) { metrics_.put_stored.Add(count); }
  void Miss(MissReason reason, uint64_t count) {
    metrics_.misses[static_cast<size_t>(reason)]->Add(count);
  }
  std::string Look() {
    log_.str("");
    watch_.Look();
    return log_.str();
  }

  std::ostringstream log_;
  const std::shared_ptr<spdlog::logger> before_;
  MetricsRegistry registry_;
  EngineMetrics metrics_{&registry_};
  Gauge& no_reuse_ = registry_.AddGauge("no_reuse", "");
  ReuseWatch watch_{&metrics_, &no_reuse_, 0};
};

// C33
TEST_F(ReuseWatchTest, C33_WritesWithoutAnyHitAreToldOnceWithTheReason) {
  Store(ReuseWatch::kEnough);
  Miss(MissReason::kEvicted, 10);
  Miss(MissReason::kNeverStored, ReuseWatch::kEnough);
  EXPECT_THAT(Look(), HasSubstr("reason=never_stored"));
  EXPECT_EQ(no_reuse_.value(), 1);
  Store(1000);
  Miss(MissReason::kNeverStored, 1000);
  EXPECT_THAT(Look(), IsEmpty());
  metrics_.hits.Add();
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_EQ(no_reuse_.value(), 0);
  // From then on it counts anew.
  Store(ReuseWatch::kEnough);
  Miss(MissReason::kEvicted, ReuseWatch::kEnough);
  EXPECT_THAT(Look(), HasSubstr("more --memory"));
}

TEST_F(ReuseWatchTest, AFewMissesOrNothingStoredAreNothingSpecial) {
  Miss(MissReason::kNeverStored, 1'000'000);
  EXPECT_THAT(Look(), IsEmpty());
  Store(ReuseWatch::kEnough - 1);
  EXPECT_THAT(Look(), IsEmpty());
  metrics_.hits.Add();
  EXPECT_THAT(Look(), IsEmpty());
  Store(1'000'000);
  Miss(MissReason::kNeverStored, ReuseWatch::kEnough - 1);
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_EQ(no_reuse_.value(), 0);
}

}  // namespace
}  // namespace ember::kv::testing
