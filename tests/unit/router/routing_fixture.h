// Two replicas whose agents the test plays: what they hold, and where requests land.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/router/router_fixture.h"

namespace ember::router {

constexpr uint32_t kBlockTokens = 16;

inline NamespaceId Ns() {
  NamespaceId id;
  id.bytes.fill(std::byte{7});
  return id;
}

// A prompt of `tokens` tokens whose chain is numbered by `seed`.
inline TokenizedPrompt Prompt(uint8_t seed, uint32_t tokens) {
  TokenizedPrompt prompt{.token_count = tokens, .ns = Ns(), .chain = {}};
  for (uint32_t i = 0; i < tokens / kBlockTokens; ++i) {
    BlockHash h;
    h.bytes[0] = std::byte{seed};
    std::memcpy(&h.bytes[4], &i, sizeof i);
    prompt.chain.push_back(h);
  }
  return prompt;
}

inline AgentSnapshot Snapshot(const std::string& id, std::vector<HeldChain> held,
                              double load_rate = 0) {
  return {.replica_id = id,
          .ns = Ns(),
          .tokens_per_block = kBlockTokens,
          .held = std::move(held),
          .report = {.healthy = true,
                     .load = {.slots_total = 2},
                     .prefill = {.linear_ms = 5},
                     .load_tokens_per_ms = load_rate},
          .model = "m"};
}

class Routing : public testing::Test {
 protected:
  Routing() {
    router.agents.answer = [](ReplicaNumber, std::string_view body) -> Result<TokenizedPrompt> {
      // {"seed":N}: prompt N
      return Prompt(static_cast<uint8_t>(body[8] - '0'), 1000);
    };
  }
  void Feed(ReplicaNumber n, AgentSnapshot snapshot) {
    router.OnLoop([&] { router.service->feed().OnSnapshot(n, std::move(snapshot)); });
  }
  std::string Where(int seed, std::string_view headers = "") {
    last = router.Ask(Post("{\"seed\":" + std::to_string(seed) + "}", headers));
    return last.Field("x-ember-replica");
  }

  FakeReplica one{Answering(JsonReply(200, "{}", "x-ember-route: local\r\n"))};
  FakeReplica two{Answering(JsonReply(200, "{}", "x-ember-route: recompute\r\n"))};
  RouterFixture router{{one.origin(), two.origin()}, [](ServiceOptions& o) {
                         o.router.default_policy = FindPolicy("cache_aware");
                       }};
  http::WireMessage last;
};

}  // namespace ember::router
