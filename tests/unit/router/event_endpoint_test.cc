#include "router/fleet/event_endpoint.h"

#include <gtest/gtest.h>

namespace ember::router {
namespace {

TEST(EventEndpoint, TakesAddressesThatCanBeConnectedTo) {
  for (const char* good :
       {"tcp://10.0.0.1:5557", "tcp://vllm-0.pods:1", "tcp://[::1]:65535", "ipc:///run/events"}) {
    EXPECT_TRUE(EventEndpoint::Parse(good).ok()) << good;
  }
  for (const char* bad : {"", "tcp://", "tcp://*:5557", "tcp://:5557", "tcp://h", "tcp://h:0",
                          "tcp://h:65536", "tcp://h:5x", "udp://h:1", "ipc://", "h:5557",
                          "inproc://x", "tcp://h:1,tcp://g:2", "tcp://a;b:1"}) {
    EXPECT_EQ(EventEndpoint::Parse(bad).status().code(), StatusCode::kInvalid) << bad;
  }
}

TEST(EventEndpoint, ALongAddressIsKeptWhole) {
  for (const std::string& address :
       {"ipc:///" + std::string(240, 'p'), "tcp://" + std::string(230, 'h') + ":5557"}) {
    ASSERT_TRUE(EventEndpoint::Parse(address).ok());
    EXPECT_EQ(EventEndpoint::Parse(address)->address, address);
  }
}

TEST(EventEndpoint, ARankHasAPortOfItsOwn) {
  const EventEndpoint base = *EventEndpoint::Parse("tcp://[::1]:5557");
  EXPECT_EQ(base.OfRank(0)->address, base.address);
  EXPECT_EQ(base.OfRank(3)->address, "tcp://[::1]:5560");
  EXPECT_FALSE(base.OfRank(65535).ok());
  EXPECT_FALSE(base.OfRank(4294967295u).ok());
  const EventEndpoint ipc = *EventEndpoint::Parse("ipc:///run/events");
  EXPECT_TRUE(ipc.OfRank(0).ok());
  EXPECT_FALSE(ipc.OfRank(1).ok());
}

}  // namespace
}  // namespace ember::router
