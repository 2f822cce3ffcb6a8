#include "router/prefix_verifier.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "client/http/await.h"
#include "client/http/json_object.h"

namespace ember::router {

namespace asio = boost::asio;

namespace {
constexpr Duration kVerifyDeadline = milliseconds(1000);
constexpr size_t kMaxVerifications = 4;
constexpr size_t kMaxAskedReplicas = 64;
constexpr size_t kMaxAskedBlocks = 1u << 16;  // as agents take them
}  // namespace

struct PrefixVerifier::Question {
  std::string id;
  std::optional<uint32_t> rank;
  ReplicaNumber agent = 0;  // its server's first member
  BlockChain chain;
  uint32_t tokens_per_block = 0;
  Told told;
  std::string why_not;  // it is not asked
  Result<LongestPrefix> answer = UnavailableError("not asked");
};

struct PrefixVerifier::Verification {
  explicit Verification(const asio::any_io_executor& executor)
      : answered(executor, TimePoint::max()) {}
  std::vector<Question> questions;
  size_t unanswered = 0;
  asio::steady_timer answered;
};

PrefixVerifier::PrefixVerifier(asio::any_io_executor executor, AgentClient& agents,
                               ReplicaSet& replicas, PrefixMatcher& matcher,
                               MetricsRegistry& registry)
    : executor_(std::move(executor)),
      agents_(agents),
      replicas_(replicas),
      matcher_(matcher),
      outcomes_(registry, "ember_router_verified_prefixes_total",
                "Replicas that were asked how much of a prompt they hold", "outcome",
                {"as_told", "less", "more"}) {}

asio::awaitable<Result<std::string>> PrefixVerifier::Verify(SharedPrompt prompt,
                                                            std::vector<Told> told) {
  if (under_way_ >= kMaxVerifications) co_return BusyError("others are verifying; try again");
  const auto all = std::make_shared<Verification>(executor_);
  size_t asked = 0;
  for (const Told& of : told) {
    const ReplicaSet::Member& member = replicas_.at(of.replica);
    Question q{.id = member.config.id,
               .rank = member.view.rank,
               .agent = member.endpoint->members.front(),
               .told = of};
    const BlockChain* chain = matcher_.AgentChain(of.replica, *prompt);
    if (chain == nullptr || !agents_.CanAsk(q.agent)) {
      q.why_not = "it has no agent that can be asked";
    } else if (++asked > kMaxAskedReplicas) {
      q.why_not = "too many to be asked at once";
    } else {
      q.chain = *chain;
      q.chain.resize(std::min(q.chain.size(), kMaxAskedBlocks));
      q.tokens_per_block = member.agent_space->tokens_per_block;
      ++all->unanswered;
    }
    all->questions.push_back(std::move(q));
  }
  if (all->unanswered > 0) {
    ++under_way_;
    for (size_t i = 0; i < all->questions.size(); ++i) {
      if (!all->questions[i].why_not.empty()) continue;
      asio::co_spawn(executor_, Ask(all, i), asio::detached);
    }
    while (all->unanswered > 0) co_await all->answered.async_wait(http::kAwait);
    --under_way_;
  }
  std::vector<std::string> out;
  for (const Question& q : all->questions) {
    http::JsonObject object;
    object.Add("replica", q.id);
    if (q.rank) object.Add("rank", *q.rank);
    object.Add("told_tokens", q.told.tokens).Add("told_store_tokens", q.told.store_tokens);
    if (q.answer.ok()) {
      object.Add("held_tokens", uint64_t{q.answer->local_blocks} * q.tokens_per_block)
          .Add("store_tokens", uint64_t{q.answer->store_blocks} * q.tokens_per_block);
    } else {
      object.Add("why", q.why_not.empty() ? q.answer.status().ToString() : q.why_not);
    }
    out.push_back(object.ToString());
  }
  co_return http::JsonArray(out);
}

asio::awaitable<void> PrefixVerifier::Ask(std::shared_ptr<Verification> all, size_t at) {
  Question& q = all->questions[at];
  q.answer = co_await agents_.AskLongestPrefix(q.agent, std::move(q.chain), kVerifyDeadline);
  if (q.answer.ok()) {
    const uint64_t held = uint64_t{q.answer->local_blocks} * q.tokens_per_block;
    outcomes_.At(held == q.told.tokens ? "as_told" : held < q.told.tokens ? "less" : "more").Add();
  } else {
    outcomes_.At(StatusCodeName(q.answer.status().code())).Add();
  }
  if (--all->unanswered == 0) all->answered.cancel();
}

}  // namespace ember::router
