#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/io/stream.h"

namespace ember::io {
namespace {

TEST(Endpoint, ParsesWhatToStringMakes) {
  for (const char* text : {"127.0.0.1:7101", "[::1]:5", "[fe80::1%eth0]:80", "localhost:0",
                           "store-0.store.kv.svc:65535", "[::ffff:10.0.0.1]:1"}) {
    Result<Endpoint> endpoint = Endpoint::Parse(text);
    ASSERT_TRUE(endpoint.ok()) << endpoint.status().ToString();
    EXPECT_EQ(endpoint->ToString(), text);
  }
  const Endpoint scoped = *Endpoint::Parse("[fe80::1%eth0]:80");
  EXPECT_EQ(scoped.host, "fe80::1%eth0");
  EXPECT_EQ(scoped.port, 80);
}

TEST(Endpoint, RefusesWhatIsAmbiguousOrMalformed) {
  for (const char* text : {"",
                           ":",
                           ":80",
                           "host",
                           "host:",
                           "host:80x",
                           "host:+80",
                           "host: 80",
                           "host:-1",
                           "host:65536",
                           "host:000080",
                           "::1:80",
                           "fe80::1",
                           "[::1]",
                           "[::1]80",
                           "[::1:80",
                           "::1]:80",
                           "[]:80",
                           "[127.0.0.1]:80",
                           "[host]:80",
                           "[::1%]:80",
                           "[::1%a b]:80",
                           "127.1:80",
                           "256.1.1.1:80",
                           "1.2.3.4.5:80",
                           "12345:80",
                           "a b:80",
                           "a/b:80",
                           "user@host:80"}) {
    Result<Endpoint> endpoint = Endpoint::Parse(text);
    ASSERT_FALSE(endpoint.ok()) << text;
    EXPECT_EQ(endpoint.status().code(), StatusCode::kInvalid) << text;
    EXPECT_THAT(endpoint.status().message(), testing::HasSubstr(text));
  }
  EXPECT_FALSE(Endpoint::Parse(std::string(254, 'a') + ":80").ok());
  EXPECT_FALSE(Endpoint::Parse(std::string("a\0b:80", 6)).ok());
}

// C22: what people write for IPv6, and for names.
TEST(Endpoint, C22_IsRightOrAClearError) {
  for (const char* text : {"[2001:DB8::1]:80", "[FE80::1%eth0]:5", "EXAMPLE.com:80",
                           "host.example.:80", "[::]:0", "[2001:db8:0:0:0:0:0:1]:65535"}) {
    Result<Endpoint> endpoint = Endpoint::Parse(text);
    ASSERT_TRUE(endpoint.ok()) << endpoint.status().ToString();
    EXPECT_EQ(endpoint->ToString(), text);
  }
  for (const char* text : {"::1", "fe80::1%eth0", "fe80::1%eth0:80", "2001:db8::1:80"}) {
    EXPECT_THAT(Endpoint::Parse(text).status().message(),
                testing::AllOf(testing::HasSubstr(text), testing::HasSubstr("brackets")));
  }
  EXPECT_THAT(Endpoint::Parse("[2001:db8::1]").status().message(), testing::HasSubstr(":port"));
  for (const char* text : {".:80", "..:80", "a..b:80", ".a:80", "127.0.0.1.:80"}) {
    EXPECT_EQ(Endpoint::Parse(text).status().code(), StatusCode::kInvalid) << text;
  }
}

TEST(Endpoint, SaysHowToWriteIpv6) {
  EXPECT_THAT(Endpoint::Parse("::1:80").status().message(), testing::HasSubstr("brackets"));
}

}  // namespace
}  // namespace ember::io
