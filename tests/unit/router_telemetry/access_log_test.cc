// The access log: lines without secrets, a bounded queue, files that are renamed or full.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <latch>
#include <sstream>

#include "router/telemetry/access_log.h"
#include "router/telemetry/tenant_digest.h"
#include "tests/unit/support/eventually.h"
#include "tests/unit/support/temp_folder.h"

namespace ember::router {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

FinishedRequest Named(const std::string& id) {
  RequestRecord r{.request_id = id, .method = "POST", .path = "/v1/completions"};
  r.policy = "prefix";
  r.status = 200;
  r.outcome = "done";
  return std::make_shared<const RequestRecord>(std::move(r));
}

std::string ContentsOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class AccessLogFile : public testing::Test {
 protected:
  ~AccessLogFile() override { std::filesystem::remove_all(folder_); }
  const std::string folder_ = MakeTempFolder();
  MetricsRegistry registry_;
};

TEST(AccessLogText, OneLineOfJsonInUtc) {
  RequestRecord r = *Named("a\"b");
  r.path = "/v1/\n";
  r.received_unix_ns = 1'700'000'000'123'456'789;
  r.received_at = TimePoint(seconds(10));
  r.ended_at = r.received_at + milliseconds(250);
  r.tenant = "0123456789abcdef";
  const std::string line = AccessLogLine(r);
  EXPECT_THAT(line, StartsWith(R"({"time":"2023-11-14T22:13:20.123Z","id":"a\"b",)"));
  EXPECT_THAT(line, HasSubstr(R"("path":"/v1/\n","status":200)"));
  EXPECT_THAT(line, HasSubstr(R"("duration_ms":250,"tenant":"0123456789abcdef"})"));
  EXPECT_THAT(line, EndsWith("}\n"));
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
}

TEST(AccessLogText, ATenantIsADigestOfTheCredential) {
  const std::string digest = TenantDigest({{"Authorization", "Bearer secret"}});
  EXPECT_EQ(digest.size(), 16u);
  EXPECT_EQ(digest, TenantDigest({{"authorization", "Bearer secret"}}));
  EXPECT_NE(digest, TenantDigest({{"Authorization", "Bearer secres"}}));
  EXPECT_NE(TenantDigest({{"x-api-key", "k"}}), "");
  EXPECT_EQ(TenantDigest({{"Cookie", "k"}}), "");
}

TEST_F(AccessLogFile, IsAppendedToAndFollowsARename) {
  const std::string path = folder_ + "/log", old = folder_ + "/log.1";
  std::ofstream(path) << "before\n";
  auto log = AccessLog::Open(path, registry_, {.pause = Duration(0)});
  ASSERT_TRUE(log.ok()) << log.status().ToString();
  (*log)->Add(Named("first"));
  ASSERT_TRUE(Eventually([&] { return ContentsOf(path).find("first") != std::string::npos; }));
  EXPECT_THAT(ContentsOf(path), StartsWith("before\n{"));
  std::filesystem::rename(path, old);
  (*log)->Reopen();
  (*log)->Add(Named("second"));
  log->reset();  // writes what is queued
  EXPECT_THAT(ContentsOf(path), HasSubstr("second"));
  EXPECT_THAT(ContentsOf(old), Not(HasSubstr("second")));
  EXPECT_THAT(registry_.RenderPrometheusText(), HasSubstr("access_log_lost_total 0"));
  EXPECT_EQ(AccessLog::Open(folder_ + "/no/log", registry_).status().code(),
            StatusCode::kUnavailable);
}

TEST_F(AccessLogFile, AFullDiskLosesLinesAndCountsThem) {
  auto log = AccessLog::Open("/dev/full", registry_, {.pause = Duration(0)});
  ASSERT_TRUE(log.ok());
  for (int i = 0; i < 100; ++i) (*log)->Add(Named("x"));
  log->reset();
  EXPECT_THAT(registry_.RenderPrometheusText(), HasSubstr("access_log_lost_total 100"));
}

TEST_F(AccessLogFile, LossesAreToldAtOnceAndThenNotForEachLine) {
  std::ostringstream said;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::ostream_sink_mt>(said)));
  auto log = AccessLog::Open("/dev/full", registry_, {.max_batch = 1, .pause = Duration(0)});
  ASSERT_TRUE(log.ok());
  for (int i = 0; i < 100; ++i) (*log)->Add(Named("x"));
  EXPECT_TRUE(Eventually([&] {
    return registry_.RenderPrometheusText().find("access_log_lost_total 100") != std::string::npos;
  }));
  log->reset();  // tells of the rest
  spdlog::set_default_logger(before);
  const std::string text = said.str();
  EXPECT_THAT(text, HasSubstr("access log: lost lines: 1 (No space left on device)"));
  EXPECT_THAT(text, HasSubstr("access log: lost lines: 99 (No space left on device)"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

TEST_F(AccessLogFile, APipeThatNobodyReadsHoldsNobodyUp) {
  const std::string path = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  auto log = AccessLog::Open(path, registry_, {.max_queued = 500, .pause = Duration(0)});
  ASSERT_TRUE(log.ok());
  for (int i = 0; i < 5000; ++i) (*log)->Add(Named("x"));
  log->reset();  // within its deadline
  const Counter& lost = registry_.AddCounter("ember_router_access_log_lost_total", "");
  EXPECT_GT(lost.value(), 4000u) << "a pipe holds 64 KiB, the queue 500 lines";
  EXPECT_LT(lost.value(), 5000u);
  ::close(reader);
}

TEST(RecordWorkerQueue, BeyondItsBoundRecordsAreLostAndCounted) {
  Counter lost;
  std::latch busy(1), go_on(1);
  std::vector<std::string> seen;
  {
    RecordWorker worker({.max_queued = 2, .max_batch = 1, .pause = Duration(0)}, lost,
                        [&](const std::vector<FinishedRequest>& batch) {
                          if (seen.empty()) {
                            busy.count_down();
                            go_on.wait();
                          }
                          for (const auto& r : batch) seen.push_back(r->request_id);
                        });
    worker.Add(Named("1"));
    busy.wait();
    for (const char* id : {"2", "3", "4", "5"}) worker.Add(Named(id));
    EXPECT_EQ(lost.value(), 2u);
    go_on.count_down();
  }
  EXPECT_THAT(seen, testing::ElementsAre("1", "2", "3"));
}

}  // namespace
}  // namespace ember::router
