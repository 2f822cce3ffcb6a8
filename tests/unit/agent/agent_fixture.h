// AgentFixture: an Agent between a client, a FakeEngine and a FakeStore, over loopback.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <future>

#include "client/agent/agent.h"
#include "client/http/upstream_pool.h"
#include "tests/unit/agent/fake_engine.h"
#include "tests/unit/agent/fake_store.h"
#include "tests/unit/support/eventually.h"

namespace ember::agent {

class AgentFixture : public ::testing::Test {
 protected:
  AgentFixture();
  ~AgentFixture() override;

  // The usual: engine and store are there; the agent is ready.
  void StartAll();
  void StartAgent(bool with_store = true);
  void WaitReady();

  struct Reply {
    Status status;  // of the call
    int code = 0;   // HTTP
    http::Headers headers;
    std::string body;
    std::string route() const { return std::string(headers.Get("x-ember-route")); }
    size_t cached() const {
      return std::stoul("0" + std::string(headers.Get("x-ember-cached-tokens")));
    }
    std::string answer() const;  // what the engine said
  };
  Reply Call(const std::string& method, const std::string& target, const std::string& body,
             http::Headers headers = {});
  // As Call; `leave` ends the connection without a reply.
  std::future<Reply> Begin(const std::string& method, const std::string& target,
                           const std::string& body, http::Headers headers = {},
                           http::Cancellation* leave = nullptr);
  // A text completion's body.
  static std::string Body(const std::string& prompt);
  // A text completion.
  Reply Ask(const std::string& prompt, http::Headers headers = {});
  // As Ask, and checks that the answer is right.
  Reply AskRight(const std::string& prompt, http::Headers headers = {});
  std::string Metrics() { return Call("GET", "/metrics", "").body; }
  // The value of one line of Metrics().
  double Metric(const std::string& name_and_labels);
  // Until no slot is busy: saves are over.
  void WaitIdle();
  void WaitStored(size_t segments);
  template <typename Condition>
  void WaitFor(const char* what, Condition condition) {
    ASSERT_TRUE(Eventually(condition, seconds(20))) << "waited in vain for: " << what;
  }

  Config config_;  // what an agent is started with, beside what the fixture knows
  std::filesystem::path folder_;
  std::string model_;
  std::unique_ptr<FakeEngine> engine_;
  FakeStore* store_ = nullptr;  // the agent's
  std::unique_ptr<Agent> agent_;
  http::HttpLoop loop_{1};
  std::unique_ptr<http::UpstreamPool> client_;
};

// A prompt of `tokens` tokens; different seeds differ from the first token on.
std::string Prompt(size_t tokens, int seed = 0);

}  // namespace ember::agent
