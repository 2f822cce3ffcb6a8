// Web pages that call the API: the router answers browsers for those that --cors-origin names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "router/front/cors.h"
#include "tests/unit/router/router_fixture.h"

namespace ember::router {
namespace {

using http::WireMessage;

constexpr char kPage[] = "https://page.example";
constexpr char kAllowOrigin[] = "Access-Control-Allow-Origin";

RouterFixture::Adjust For(std::vector<std::string> origins) {
  return [=](ServiceOptions& o) { o.cors_origins = origins; };
}

std::string OfPage(const std::string& origin) { return "Origin: " + origin + "\r\n"; }

std::string Preflight(const std::string& origin, const char* target = "/v1/chat/completions") {
  return "OPTIONS " + std::string(target) + " HTTP/1.1\r\nHost: a\r\n" + OfPage(origin) +
         "Access-Control-Request-Method: POST\r\n"
         "Access-Control-Request-Headers: authorization,content-type\r\n\r\n";
}

TEST(CorsPages, AreAnsweredByTheRouterAndReadItsErrorsToo) {
  FakeReplica replica(Answering(JsonReply(
      200, "{}", "Access-Control-Allow-Origin: https://other.example\r\nVary: Accept\r\n")));
  RouterFixture router({replica.origin()}, For({"https://first.example", kPage}));
  const WireMessage asked = router.Ask(Preflight(kPage));
  EXPECT_EQ(asked.status(), 204);
  EXPECT_EQ(asked.Field(kAllowOrigin), kPage);
  EXPECT_EQ(asked.Field("Access-Control-Allow-Methods"), "POST");
  EXPECT_EQ(asked.Field("Access-Control-Allow-Headers"), "authorization,content-type");
  EXPECT_EQ(replica.requests(), 0);
  for (const auto& [body, status] : {std::pair("{}", 200), {"[]", 400}}) {
    const WireMessage reply = router.Ask(Post(body, OfPage(kPage)));
    EXPECT_EQ(reply.status(), status);
    EXPECT_EQ(reply.Field(kAllowOrigin), kPage) << "one value, whatever the replica says";
    EXPECT_EQ(reply.Field("Access-Control-Expose-Headers"), "*");
    EXPECT_EQ(reply.Field("Vary"), "Origin, Accept-Encoding");
  }
  EXPECT_EQ(router
                .Ask("POST /v1/completions HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\n" +
                     OfPage(kPage) + "\r\n")
                .Field(kAllowOrigin),
            kPage)
      << "also what is refused before it is looked at";
}

TEST(CorsPages, OfOthersAndOfOtherPathsReadNothing) {
  FakeReplica replica(Answering(JsonReply(200, "{}", "Access-Control-Allow-Origin: *\r\n")));
  RouterFixture router({replica.origin()}, For({kPage}));
  const WireMessage asked = router.Ask(Preflight("https://evil.example"));
  EXPECT_EQ(asked.status(), 405);
  EXPECT_EQ(asked.Field(kAllowOrigin), "");
  EXPECT_EQ(replica.requests(), 0);
  EXPECT_EQ(router.Ask(Post("{}", OfPage("https://page.example.evil"))).Field(kAllowOrigin), "");
  EXPECT_EQ(router.Ask(Post("{}")).Field(kAllowOrigin), "");
  const WireMessage page =
      router.Ask("GET /admin/status HTTP/1.1\r\nHost: a\r\n" + OfPage(kPage) + "\r\n");
  EXPECT_EQ(page.status(), 200);
  EXPECT_EQ(page.Field(kAllowOrigin), "");
}

TEST(CorsPages, AllOfThemWithAStarAndTheEnginesAffairWithoutAnOrigin) {
  FakeReplica replica(Answering(JsonReply(200, "{}", "Access-Control-Allow-Origin: x\r\n")));
  RouterFixture all({replica.origin()}, For({"*"}));
  EXPECT_EQ(all.Ask(Preflight("https://any.example")).Field(kAllowOrigin), "*");
  RouterFixture off({replica.origin()});
  EXPECT_EQ(off.Ask(Preflight(kPage)).Field(kAllowOrigin), "x");
  EXPECT_EQ(off.Ask(Post("{}", OfPage(kPage))).Field(kAllowOrigin), "x");
}

TEST(CorsPages, AnOriginIsWhatBrowsersSend) {
  for (const char* good : {"*", "https://a", "http://a.b:8080", "chrome-extension://abc",
                           "https://[::1]", "http://[::1]:8080", "http://a:443"}) {
    EXPECT_TRUE(Cors::IsOrigin(good)) << good;
  }
  for (const char* bad :
       {"", "a.b", "https://", "://a", "https://a/", "https://*.a", "https://a, b", "HTTPS://a",
        "https://A.b", "https://\u00e4.b", "https://a:443", "http://[::1]:80",
        "https://a:", "https://:8080", "https://a:x", "https://a:080"}) {
    EXPECT_FALSE(Cors::IsOrigin(bad)) << bad;
  }
}

}  // namespace
}  // namespace ember::router
