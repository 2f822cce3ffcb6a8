// Looking a name up takes as long as the system likes; nobody waits for it but who needs it, and he
// only as long as he likes.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <atomic>
#include <boost/asio/post.hpp>

#include "client/http/name_resolver.h"
#include "tests/unit/http/door.h"

namespace ember::http {
namespace {

// Names that begin so hang until the signal.
constexpr std::string_view kHangs = "hangs";
std::atomic<const Signal*> hang_until;
std::atomic<int> lookups_begun, lookups_under_way;

constexpr char kShortReply[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

class SlowLookup : public testing::Test {
 protected:
  SlowLookup() {
    hang_until = &lookups_may_end;
    lookups_begun = 0;
  }
  // The threads of what hangs outlive the loop, but must not outlive the signal.
  ~SlowLookup() override {
    lookups_may_end.Set();
    EXPECT_TRUE(Eventually([] { return lookups_under_way == 0; }));
  }
  std::future<Result<CallReply>> Call(Origin origin, ExchangeOptions options) {
    return Launch(strand, pool->Call(std::move(origin), {}, options));
  }
  static Origin Hanging(int n = 0) { return {"hangs" + std::to_string(n) + ".test", 80}; }

  Signal lookups_may_end;
  std::unique_ptr<HttpLoop> loop = std::make_unique<HttpLoop>();
  std::unique_ptr<UpstreamPool> pool = std::make_unique<UpstreamPool>(*loop);
  boost::asio::any_io_executor strand = loop->NewStrand();
};

TEST_F(SlowLookup, EndsWithTheConnectTimeoutOrTheCancellation) {
  const auto late = Call(Hanging(), {.connect_timeout = milliseconds(50)}).get();
  EXPECT_EQ(late.status().code(), StatusCode::kDeadline);
  EXPECT_TRUE(late.status().message().starts_with("connect to ")) << late.status().ToString();
  ASSERT_TRUE(Eventually([] { return lookups_begun == 1; }));
  Cancellation cancellation;
  auto cancelled = Call(Hanging(), {.connect_timeout = seconds(60), .cancellation = &cancellation});
  boost::asio::post(strand, [&] { cancellation.Cancel(); });
  EXPECT_EQ(cancelled.get().status().code(), StatusCode::kCancelled);
  EXPECT_FALSE(lookups_may_end.is_set());
  EXPECT_EQ(pool->connection_count(), 0u);
}

TEST_F(SlowLookup, OfOneNameHoldsUpNoOther) {
  FakeUpstream upstream([](TestSocket& peer) {
    peer.ReadMessage();
    peer.Send(kShortReply);
  });
  // As many who want the one name as there may be look-ups at once, and more.
  std::vector<std::future<Result<CallReply>>> waiting;
  for (size_t i = 0; i < 2 * NameResolver::kMaxThreads; ++i) {
    waiting.push_back(Call(Hanging(), {.connect_timeout = seconds(60)}));
  }
  waiting.push_back(Call(Hanging(1), {.connect_timeout = seconds(60)}));
  ASSERT_TRUE(Eventually([] { return lookups_begun == 2; }));
  for (int i = 0; i < 3; ++i) {
    const auto reply = Call({"localhost", upstream.origin().port}, {}).get();
    ASSERT_TRUE(reply.ok()) << reply.status().ToString();
    EXPECT_EQ(reply->body, "ok");
  }
  EXPECT_EQ(lookups_under_way, 2) << "one for all who ask";
  lookups_may_end.Set();
  for (auto& call : waiting) EXPECT_EQ(call.get().status().code(), StatusCode::kUnavailable);
}

// However many hang, names that do not are found within a moment.
TEST_F(SlowLookup, OfManyNamesHoldsUpNoOther) {
  FakeUpstream upstream(AnswerAlways(kShortReply));
  const int names = 3 * static_cast<int>(NameResolver::kMaxThreads);
  std::vector<std::future<Result<CallReply>>> waiting;
  for (int n = 0; n < names; ++n) {
    waiting.push_back(Call(Hanging(n), {.connect_timeout = seconds(60)}));
  }
  const auto reply =
      Call({"localhost", upstream.origin().port}, {.connect_timeout = seconds(60)}).get();
  EXPECT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_TRUE(Eventually([&] { return lookups_under_way == names; }));
  lookups_may_end.Set();
  for (auto& call : waiting) EXPECT_EQ(call.get().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(lookups_begun, names);
}

TEST_F(SlowLookup, TheLoopsEndDoesNotWaitForIt) {
  const auto late = Call(Hanging(), {.connect_timeout = milliseconds(1)}).get();
  EXPECT_EQ(late.status().code(), StatusCode::kDeadline);
  const auto never = Call(Hanging(1), {.connect_timeout = seconds(60)});
  ASSERT_TRUE(Eventually([] { return lookups_under_way == 2; }));
  pool.reset();
  strand = {};
  loop.reset();
  EXPECT_FALSE(lookups_may_end.is_set());
}

}  // namespace
}  // namespace ember::http

// In the place of the system's.
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  namespace http = ember::http;
  if (name != nullptr && std::string_view(name).starts_with(http::kHangs)) {
    ++http::lookups_under_way;
    ++http::lookups_begun;
    (void)http::hang_until.load()->Await(std::chrono::seconds(60));
    --http::lookups_under_way;
    return EAI_AGAIN;
  }
  static const auto real =
      reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(name, service, hints, found);
}
