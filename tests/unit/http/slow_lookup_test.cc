// Looking a name up takes as long as the system likes; an exchange does not wait for it.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <boost/asio/post.hpp>

#include "tests/unit/http/door.h"

namespace ember::http {
namespace {

constexpr std::string_view kHangs = "hangs.test";
Signal lookup_began, lookup_may_end;

class SlowLookup : public testing::Test {
 protected:
  // The loop's end waits for the lookup.
  ~SlowLookup() override { lookup_may_end.Set(); }
  std::future<Result<CallReply>> Call(ExchangeOptions options) {
    return Launch(strand, pool.Call({std::string(kHangs), 80}, {}, options));
  }
  HttpLoop loop;
  UpstreamPool pool{loop};
  const boost::asio::any_io_executor strand = loop.NewStrand();
};

TEST_F(SlowLookup, EndsWithTheConnectTimeoutOrTheCancellation) {
  const auto late = Call({.connect_timeout = milliseconds(50)}).get();
  EXPECT_EQ(late.status().code(), StatusCode::kDeadline);
  EXPECT_TRUE(late.status().message().starts_with("connect to ")) << late.status().ToString();
  ASSERT_TRUE(lookup_began.Await());
  Cancellation cancellation;
  auto cancelled = Call({.connect_timeout = seconds(60), .cancellation = &cancellation});
  boost::asio::post(strand, [&] { cancellation.Cancel(); });
  EXPECT_EQ(cancelled.get().status().code(), StatusCode::kCancelled);
  EXPECT_FALSE(lookup_may_end.is_set());
  EXPECT_EQ(pool.connection_count(), 0u);
}

}  // namespace
}  // namespace ember::http

// In the place of the system's.
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  using ember::http::kHangs;
  if (name != nullptr && name == kHangs) {
    ember::http::lookup_began.Set();
    (void)ember::http::lookup_may_end.Await(std::chrono::seconds(60));
    return EAI_AGAIN;
  }
  static const auto real =
      reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(name, service, hints, found);
}
