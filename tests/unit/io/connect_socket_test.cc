// Connecting where only real sockets can make the trouble.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <filesystem>
#include <future>
#include <thread>

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

// bbr's pacing timers took almost a quarter of a put's CPU there (client/io/README.md).
TEST(SocketTest, StreamsWithinTheHostAreNotPaced) {
  for (const char* host : {"127.0.0.1", "::1"}) {
    const FileDescriptor listener = Must(OpenListenSocket({host, 0}, 0));
    const SocketAddress address = ResolveEndpoint({host, LocalPort(listener.get())})->front();
    const FileDescriptor client = Must(OpenSocket(address.family(), 0));
    ASSERT_EQ(::connect(client.get(), address.get(), address.length), 0);
    const FileDescriptor server(::accept(listener.get(), nullptr, nullptr));
    for (int fd : {client.get(), server.get()}) {
      SetUpStream(fd);
      std::string name(16, '\0');
      socklen_t length = name.size();
      ASSERT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &length), 0);
      EXPECT_STREQ(name.c_str(), "reno");
    }
  }
}

class ConnectSocketTest : public LoopTest {
 protected:
  Task<void> TryConnect(Endpoint endpoint, Duration timeout, Status* out) {
    *out = (co_await loop().Connect(std::move(endpoint), timeout)).status();
  }
};

TEST_P(ConnectSocketTest, TimesOut) {
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

TEST_P(ConnectSocketTest, EndsWhenTheLoopStops) {
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

EMBER_EVERY_LOOP(ConnectSocketTest);

size_t OpenFiles() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                           std::filesystem::directory_iterator()));
}

// As a killed process that used io_uring leaves its port behind for a while.
TEST(ListenSocket, WaitsForAPortThatIsAboutToBeFree) {
  FileDescriptor former = std::move(*OpenListenSocket({"127.0.0.1", 0}, 0));
  const uint16_t port = LocalPort(former.get());
  const size_t before = OpenFiles();
  auto successor = std::async(std::launch::async, [port] {
    return OpenListenSocket({"127.0.0.1", port}, 0);
  });
  while (OpenFiles() == before) std::this_thread::yield();
  EXPECT_EQ(successor.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  former = FileDescriptor();
  const Result<FileDescriptor> fd = successor.get();
  ASSERT_TRUE(fd.ok()) << fd.status().ToString();
  EXPECT_EQ(LocalPort(fd->get()), port);
}

}  // namespace
}  // namespace ember::io
