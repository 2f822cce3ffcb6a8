// HttpDoor: the replica's OpenAI API and pages, byte for byte what shared/bench/router's fake
// replica answers where its load generator or a router looks.
//
// Concurrency: the loop's thread, but for Listen before the loop has anything to do. Life: as long
// as the process.
#pragma once

#include <memory>

#include "client/http/server.h"
#include "tests/bench/replica/replica.h"

namespace ember::bench {

class HttpDoor {
 public:
  // `reset`: what /admin/reset does.
  HttpDoor(http::HttpLoop& loop, uint16_t port, Replica& replica, std::function<void()> reset)
      : loop_(loop), port_(port), replica_(replica), reset_(std::move(reset)) {}

  // On 127.0.0.1. kUnavailable: the port is in use.
  Status Listen();

 private:
  boost::asio::awaitable<void> Answer(http::Request& request, http::ResponseWriter& writer);
  boost::asio::awaitable<void> Infer(http::Request& request, http::ResponseWriter& writer);
  boost::asio::awaitable<Status> Stream(const Prompt& prompt, const std::string& id,
                                        const Engine::Work& work, http::ResponseWriter& writer);
  boost::asio::awaitable<Status> Whole(const Prompt& prompt, const std::string& id,
                                       const Engine::Work& work, http::ResponseWriter& writer);
  // The replica dies now, its connections with it, and is back after `down`.
  void Kill(Duration down);
  boost::asio::awaitable<void> Revive(Duration down);
  std::string Metrics() const;

  http::HttpLoop& loop_;
  const uint16_t port_;
  Replica& replica_;
  const std::function<void()> reset_;
  std::unique_ptr<http::HttpServer> server_;
};

}  // namespace ember::bench
