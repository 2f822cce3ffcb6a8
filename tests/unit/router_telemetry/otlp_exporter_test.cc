// A collector that has no time now gets its spans later, and loses them when it never has.
#include "router/telemetry/otlp_exporter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/http/fake_upstream.h"
#include "tests/unit/router_telemetry/served_request.h"

namespace ember::router {
namespace {

class OtlpExporting : public testing::Test {
 protected:
  ~OtlpExporting() override { loop_.Stop(); }

  // What became of one request's spans, whose batches are answered in this order, then the last.
  void Export(std::vector<std::string> statuses, Duration delay = milliseconds(1)) {
    std::atomic<size_t> asked{0};
    http::FakeUpstream collector([&](http::TestSocket& peer) {
      while (peer.ReadMessage().complete) {
        const size_t n = asked.fetch_add(1);
        peer.Send("HTTP/1.1 " + statuses[std::min(n, statuses.size() - 1)] +
                  "\r\nContent-Length: 0\r\n\r\n");
      }
    });
    OtlpOptions options{.collector = collector.origin()};
    options.retry_delay = delay;
    options.queue.pause = Duration::zero();
    OtlpExporter exporter(options, {}, loop_, pool_, registry_);
    RequestRecord record = Served();
    SeededRandom random(2);
    record.trace = TraceContext::Begin({}, 1, random);
    exporter.Add(std::make_shared<const RequestRecord>(record));
    const size_t wanted = wait_for_ != 0 ? wait_for_ : statuses.size();
    while (asked.load() < wanted || (wait_for_ == 0 && told() == 0)) std::this_thread::yield();
    asked_ = asked.load();
  }
  uint64_t Count(const std::string& name) {
    const std::string text = registry_.RenderPrometheusText();
    const size_t at = text.find("\nember_router_otlp_spans_" + name + "_total ");
    return std::stoull(text.substr(text.find(' ', at) + 1));
  }
  uint64_t told() { return Count("sent") + Count("dropped"); }

  http::HttpLoop loop_{1};
  http::UpstreamPool pool_{loop_};
  MetricsRegistry registry_;
  size_t wait_for_ = 0;  // questions, whatever became of the spans
  size_t asked_ = 0;
};

TEST_F(OtlpExporting, WhoHasNoTimeNowIsAskedAgain) {
  Export({"429 Too Many Requests\r\nRetry-After: 0", "503 Service Unavailable", "502 Bad Gateway",
          "504 Gateway Timeout", "200 OK"});
  EXPECT_GT(Count("sent"), 0u);
  EXPECT_EQ(Count("dropped"), 0u);
}

TEST_F(OtlpExporting, NotForEverAndNotWhoRefuses) {
  Export({"503 Service Unavailable"});
  EXPECT_EQ(asked_, 5u);
  const uint64_t dropped = Count("dropped");
  EXPECT_GT(dropped, 0u);
  EXPECT_EQ(Count("sent"), 0u);
}

TEST_F(OtlpExporting, ARefusedBatchIsNotSentAgain) {
  Export({"400 Bad Request"});
  EXPECT_EQ(asked_, 1u);
  EXPECT_GT(Count("dropped"), 0u);
}

TEST_F(OtlpExporting, TheEndOfTheProcessWaitsForNoRetry) {
  wait_for_ = 1;
  Export({"503 Service Unavailable\r\nRetry-After: 3600"}, seconds(3600));
  EXPECT_EQ(asked_, 1u);
  EXPECT_GT(Count("dropped"), 0u);
}

}  // namespace
}  // namespace ember::router
