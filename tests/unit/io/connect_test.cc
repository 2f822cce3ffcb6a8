// Listening and connecting, and what goes wrong there.

#include <sys/socket.h>

#include "client/io/socket.h"
#include "tests/unit/io/loop_fixture.h"

namespace ember::io {
namespace {

// A listener whose queue is full: further connects get no answer, as from a host that is down.
class DeafListener {
 public:
  DeafListener() : listener_(Must(OpenSocket(AF_INET, 0))) {
    SocketAddress address = ResolveEndpoint({"127.0.0.1", 0}).value().front();
    EMBER_CHECK(::bind(listener_.get(), address.get(), address.length) == 0, "bind");
    EMBER_CHECK(::listen(listener_.get(), 0) == 0, "listen");
    address = ResolveEndpoint({"127.0.0.1", port()}).value().front();
    for (int i = 0; i < 4; ++i) {
      fillers_.push_back(Must(OpenSocket(AF_INET, SOCK_NONBLOCK)));
      (void)!::connect(fillers_.back().get(), address.get(), address.length);
    }
  }
  uint16_t port() const { return LocalPort(listener_.get()); }

 private:
  FileDescriptor listener_;
  std::vector<FileDescriptor> fillers_;
};

class ConnectTest : public LoopTest {
 protected:
  Task<void> TryConnect(Endpoint endpoint, Duration timeout, Status* out) {
    *out = (co_await loop().Connect(std::move(endpoint), timeout)).status();
  }
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

TEST_P(ConnectTest, TimesOut) {
  const DeafListener deaf;
  RunTask([&]() -> Task<void> {
    const TimePoint before = loop().Now();
    Status status;
    co_await TryConnect({"127.0.0.1", deaf.port()}, milliseconds(50), &status);
    EXPECT_EQ(status.code(), StatusCode::kDeadline) << status.ToString();
    EXPECT_GE(loop().Now() - before, milliseconds(50));
    EXPECT_LT(loop().Now() - before, seconds(5));
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

TEST_P(ConnectTest, EndsWhenTheLoopStops) {
  const DeafListener deaf;
  Status status;
  Gate gate;
  loop().Post([&] { gate.Spawn(TryConnect({"127.0.0.1", deaf.port()}, seconds(60), &status)); });
  const auto timer = loop().StartTimer(loop().Now() + milliseconds(5), [&] { loop().Stop(); });
  loop().Run();
  EXPECT_EQ(gate.running(), 0u);
  EXPECT_EQ(status.code(), StatusCode::kCancelled) << status.ToString();
}

TEST(Socket, KnowsAConnectionToItself) {
  const FileDescriptor fd = Must(OpenSocket(AF_INET, 0));
  const SocketAddress any = ResolveEndpoint({"127.0.0.1", 0}).value().front();
  ASSERT_EQ(::bind(fd.get(), any.get(), any.length), 0);
  const SocketAddress own = ResolveEndpoint({"127.0.0.1", LocalPort(fd.get())}).value().front();
  ASSERT_EQ(::connect(fd.get(), own.get(), own.length), 0);
  EXPECT_TRUE(IsConnectedToItself(fd.get()));
}

EMBER_EVERY_LOOP(ConnectTest);

}  // namespace
}  // namespace ember::io
