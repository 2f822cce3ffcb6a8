// A router over replicas whose every byte is the test's, and an agent that is asked in process.
#pragma once

#include <atomic>
#include <boost/asio/post.hpp>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "router/policy/registry.h"
#include "router/service.h"
#include "tests/unit/http/fake_upstream.h"

namespace ember::router {

// Answers Tokenize by this function; without one there is no agent. Remembers hints.
class FakeAgents final : public AgentClient {
 public:
  using Answer = std::function<Result<TokenizedPrompt>(ReplicaNumber, std::string_view body)>;
  bool CanAsk(ReplicaNumber) const override { return answer != nullptr; }
  boost::asio::awaitable<Result<TokenizedPrompt>> Tokenize(ReplicaNumber replica, std::string_view,
                                                           std::string_view body,
                                                           Duration) override {
    asked.fetch_add(1);
    co_return answer(replica, body);
  }
  boost::asio::awaitable<Result<std::string_view>> Prefetch(ReplicaNumber replica,
                                                            PrefetchHint hint, Duration) override {
    hints.emplace_back(replica, std::move(hint));
    if (on_hint) on_hint();
    while (silent) (void)co_await http::SleepFor(seconds(3600), nullptr);
    co_return "accepted";
  }
  boost::asio::awaitable<Result<LongestPrefix>> AskLongestPrefix(ReplicaNumber replica,
                                                                 BlockChain chain,
                                                                 Duration) override {
    prefixes_asked.fetch_add(1);
    if (silent && !(co_await http::SleepFor(seconds(3600), &end_of_silence)).ok()) {
      co_return DeadlineError("it said nothing");
    }
    co_return held(replica, chain);
  }
  // Answers AskLongestPrefix. The loop's thread.
  std::function<Result<LongestPrefix>(ReplicaNumber, const BlockChain&)> held;
  // The loop's thread.
  std::vector<std::pair<ReplicaNumber, PrefetchHint>> hints;
  std::function<void()> on_hint;
  bool silent = false;                // hints are not answered, and questions for prefixes ...
  http::Cancellation end_of_silence;  // ... not before this
  Answer answer;
  std::atomic<int> asked{0}, prefixes_asked{0};
};

// A replica that answers its health probes by itself and gives everything else to the script.
class FakeReplica {
 public:
  using Script = std::function<void(http::TestSocket& peer, const http::WireMessage& request)>;
  explicit FakeReplica(Script script, uint16_t port = 0);

  http::Origin origin() const { return upstream_.origin(); }
  int requests() const { return requests_.load(); }
  int probes() const { return probes_.load(); }
  // The newest probe; waits for the first.
  http::WireMessage Probe();
  // From now on probes are answered with this status; 0: not at all.
  void SetHealth(int status) { health_.store(status); }
  // From now on /metrics says this; before, there is none.
  void SetMetrics(std::string text);
  // From now on /v1/models lists these, or says this; before, it is the script's.
  void SetModels(const std::vector<std::string>& names);
  void SetModelsText(std::string text);
  // The n-th request that was not a probe, head and body; waits for it.
  http::WireMessage Request(size_t n = 0);

 private:
  Script script_;
  std::atomic<int> requests_{0};
  std::atomic<int> probes_{0};
  std::atomic<int> health_{200};
  std::mutex mutex_;
  std::vector<http::WireMessage> seen_;
  http::WireMessage probe_;
  std::string metrics_, models_;
  http::FakeUpstream upstream_;
};

// "HTTP/1.1 <status> ..." with JSON content type and this body.
std::string JsonReply(int status, std::string_view body, std::string_view extra_headers = "");
// Scripts that answer every request alike: so; with that status, as it is then, and "{}"; not at
// all, but reset the connection.
FakeReplica::Script Answering(std::string reply);
FakeReplica::Script AnsweringStatus(const std::atomic<int>& status);
FakeReplica::Script Resetting();
// Resets what contains `word`, and counts it; answers all else with 200 and "{}".
FakeReplica::Script ResettingAt(std::string word, std::atomic<int>* count);
// A whole chunked event stream.
std::string StreamReply(std::string_view events, std::string_view extra_headers = "");

// The head and the first event, "data: 1", of one that goes on.
inline constexpr std::string_view kStreamBegun =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
    "chunked\r\n\r\n9\r\ndata: 1\n\n\r\n";

// So many replicas of one script.
class FakeFleet {
 public:
  FakeFleet(int replicas, const FakeReplica::Script& script);
  std::vector<http::Origin> origins() const;
  // How many of them got any request; and all requests of all.
  int asked() const;
  int requests() const;

 private:
  std::vector<std::unique_ptr<FakeReplica>> replicas_;
};

std::string Post(std::string_view body, std::string_view extra_headers = "",
                 std::string_view target = "/v1/chat/completions");
std::string Get(std::string_view target);

// A broken kept connection would be tried once more unseen.
inline void NoKeptConnections(ServiceOptions& o) { o.upstream.max_idle_per_origin = 0; }

class RouterFixture {
 public:
  using Adjust = std::function<void(ServiceOptions&)>;
  // Replicas are named r1, r2, ... Their /metrics and /v1/models are not asked for unless `adjust`
  // wants it. Waits until all of `expect_usable` (default: all) are usable.
  explicit RouterFixture(std::vector<http::Origin> origins, Adjust adjust = nullptr,
                         int expect_usable = -1);
  ~RouterFixture() { service->Stop(Duration::zero()); }

  http::TestSocket Client() const { return http::TestSocket::ConnectTo(service->port()); }
  // One request on a connection of its own.
  http::WireMessage Ask(std::string_view request) const;
  StatusReport Status() const { return *service->GetStatus(); }
  std::string Page(std::string_view target) const { return Ask(Get(target)).body; }
  bool AwaitUsable(size_t n) const;
  // Runs on the router's loop and waits.
  void OnLoop(const std::function<void()>& work) const;

  FakeAgents agents;
  std::unique_ptr<Service> service;
};

}  // namespace ember::router
