// Listening and connecting, and what goes wrong there.

#include "tests/unit/io/loop_fixture.h"

namespace ember::io {
namespace {

class ConnectTest : public LoopTest {
 protected:
  uint16_t FreePort() { return Must(loop().Listen({"127.0.0.1", 0}))->port(); }
};

TEST_P(ConnectTest, IsRefusedWhereNobodyListens) {
  RunTask([&]() -> Task<void> {
    const Endpoint endpoint{"127.0.0.1", FreePort()};
    const Status status = (co_await loop().Connect(endpoint, seconds(5))).status();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_NE(status.message().find(endpoint.ToString()), std::string_view::npos);
    EXPECT_NE(status.message().find("Connection refused"), std::string_view::npos);
  });
}

TEST_P(ConnectTest, ResolvesNames) {
  RunTask([&]() -> Task<void> {
    ListenerPtr listener = Must(loop().Listen({"127.0.0.1", 0}));
    StreamPtr server;
    Gate gate;
    gate.Spawn(AcceptOne(*listener, &server));
    EXPECT_TRUE((co_await loop().Connect({"localhost", listener->port()}, seconds(5))).ok());
    co_await gate.Close();
    // RFC 2606: never a name that exists.
    const Status status = (co_await loop().Connect({"nobody.invalid", 1}, seconds(5))).status();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_NE(status.message().find("nobody.invalid"), std::string_view::npos);
  });
}

TEST_P(ConnectTest, SpeaksIpv6) {
  if (Result<ListenerPtr> probe = loop().Listen({"::1", 0}); !probe.ok()) {
    GTEST_SKIP() << probe.status().ToString();
  }
  RunTask([&]() -> Task<void> {
    ListenerPtr listener = Must(loop().Listen({"::1", 0}));
    StreamPtr server;
    Gate gate;
    gate.Spawn(AcceptOne(*listener, &server));
    StreamPtr client = Must(co_await loop().Connect({"::1", listener->port()}, seconds(5)));
    co_await gate.Close();
    EXPECT_EQ(client->peer_name(), "[::1]:" + std::to_string(listener->port()));
    EXPECT_TRUE(server->peer_name().starts_with("[::1]:"));
  });
}

TEST_P(ConnectTest, APortInUseIsAnError) {
  ListenerPtr first = Must(loop().Listen({"127.0.0.1", 0}));
  EXPECT_NE(first->port(), 0);
  Result<ListenerPtr> second = loop().Listen({"127.0.0.1", first->port()});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(second.status().message(), "listen on 127.0.0.1:" + std::to_string(first->port()) +
                                           ": bind: Address already in use");
}

TEST_P(ConnectTest, APortIsFreeAgainAtOnceAfterConnections) {
  RunTask([&]() -> Task<void> {
    ListenerPtr listener = Must(loop().Listen({"127.0.0.1", 0}));
    const uint16_t port = listener->port();
    StreamPtr server;
    Gate gate;
    gate.Spawn(AcceptOne(*listener, &server));
    StreamPtr client = Must(co_await loop().Connect({"127.0.0.1", port}, seconds(5)));
    co_await gate.Close();
    server.reset();  // this side closes first, so its port stays in TIME_WAIT
    client.reset();
    listener.reset();
    EXPECT_TRUE(loop().Listen({"127.0.0.1", port}).ok());
  });
}

TEST_P(ConnectTest, AnAddressOfAnotherHostIsAnError) {
  // TEST-NET-1, never ours.
  Result<ListenerPtr> listener = loop().Listen({"192.0.2.1", 0});
  ASSERT_FALSE(listener.ok());
  EXPECT_EQ(listener.status().code(), StatusCode::kUnavailable);
}

EMBER_EVERY_LOOP(ConnectTest);

}  // namespace
}  // namespace ember::io
