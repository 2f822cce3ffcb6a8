#include "tests/bench/fleet_sim/simulation.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "proto/base/random.h"
#include "router/estimate/replica_estimate.h"

namespace ember::sim {
namespace {

using router::Candidate;
using router::ReplicaEstimate;

// The prober finds a replica that is back within this time.
constexpr double kProbeMs = 500;

TimePoint At(double ms) {
  return TimePoint(seconds(1000)) + Duration(static_cast<int64_t>(ms * 1e6));
}

// What one router knows of one replica.
struct Known {
  ReplicaEstimate estimate;
  Replica view;
  double service_ms = 0;
};

class Run {
 public:
  Run(const FleetShape& shape, const Work& work, const router::Policy& policy, uint64_t seed)
      : shape_(shape), work_(work), policy_(policy), random_(seed) {
    for (size_t i = 0; i < shape.replicas; ++i) {
      EngineShape engine = shape.engine;
      if (i == 0) engine.prefill.linear_ms *= shape.first_slower;
      replicas_.emplace_back(engine, work.tokens_per_block);
    }
    routers_.resize(shape.routers);
    for (auto& known : routers_) {
      known = std::vector<Known>(shape.replicas);
      for (size_t i = 0; i < shape.replicas; ++i) {
        known[i].view.id = "r" + std::to_string(i);
        known[i].view.cache.capacity_tokens = shape.engine.cache_blocks * work.tokens_per_block;
        known[i].view.load_tokens_per_ms = shape.engine.load_tokens_per_ms;
      }
    }
    running_.resize(shape.replicas);
    waiting_.resize(shape.replicas);
    usable_.assign(shape.replicas, true);
  }

  Result Go() {
    if (shape_.join_ms > 0) {
      for (size_t i = shape_.replicas / 2; i < shape_.replicas; ++i) {
        usable_[i] = false;
        Later(shape_.join_ms, [this, i] { usable_[i] = true; });
      }
    }
    if (shape_.kill_first_ms > 0) {
      Later(shape_.kill_first_ms, [this] { Kill(); });
      Later(shape_.back_ms, [this] { replicas_[0].up = true; });
      Later(shape_.back_ms + kProbeMs, [this] { usable_[0] = true; });
    }
    for (const Session& session : work_.sessions) {
      Later(session.start_ms, [this, &session] { Send(session, 0); });
    }
    if (shape_.routers > 1) Later(shape_.report_ms, [this] { Report(); });
    while (sessions_left_ > 0 && !events_.empty()) {
      const auto event = events_.extract(events_.begin());
      now_ = event.key().first;
      event.mapped()();
    }
    return std::move(result_);
  }

 private:
  void Later(double at, std::function<void()> action) {
    events_.emplace(std::pair(at, next_event_++), std::move(action));
  }

  void Kill() {
    replicas_[0].Kill();
    usable_[0] = false;
    running_[0] = waiting_[0] = 0;
  }

  void Report() {
    for (auto& known : routers_) {
      for (size_t i = 0; i < known.size(); ++i) {
        known[i].estimate.OnReport(static_cast<uint32_t>(waiting_[i]), At(now_));
        known[i].view.load.waiting = static_cast<uint32_t>(waiting_[i]);
        known[i].view.load.running = static_cast<uint32_t>(running_[i]);
        known[i].view.in_flight = 0;
      }
    }
    reported_ms_ = now_;
    Later(now_ + shape_.report_ms, [this] { Report(); });
  }

  // As the index knows it: the longest match, if a replica holds what another prompt went on with.
  uint64_t BranchTokens(const Prompt& prompt) {
    uint64_t longest = 0;
    for (size_t i = 0; i < replicas_.size(); ++i) {
      if (usable_[i]) longest = std::max(longest, replicas_[i].MatchTokens(prompt));
    }
    const uint64_t blocks = longest / work_.tokens_per_block;
    if (blocks == 0) return 0;
    const bool branches = std::ranges::any_of(next_[prompt.blocks[blocks - 1]], [&](uint64_t next) {
      return std::ranges::any_of(replicas_,
                                 [&](const SimReplica& r) { return r.cache().Holds(next); });
    });
    return branches ? longest : 0;
  }

  void Send(const Session& session, size_t turn) {
    if (turn == session.turns.size() || (work_.end_ms > 0 && now_ > work_.end_ms)) {
      --sessions_left_;
      return;
    }
    const Prompt& prompt = session.turns[turn];
    std::vector<Known>& known = routers_[result_.outcomes.size() % routers_.size()];
    const std::string conversation = std::to_string(&session - work_.sessions.data());
    uint64_t stored = 0;
    while (stored < prompt.blocks.size() && store_.contains(prompt.blocks[stored])) ++stored;
    std::vector<Candidate> candidates;
    for (size_t i = 0; i < replicas_.size(); ++i) {
      if (!usable_[i]) continue;
      known[i].estimate.Describe(At(now_), {.load_rate = true}, &known[i].view);
      known[i].view.cache.held_tokens = replicas_[i].cache().size() * work_.tokens_per_block;
      const auto match = static_cast<uint32_t>(replicas_[i].MatchTokens(prompt));
      candidates.push_back({.replica = &known[i].view,
                            .match = {.device_tokens = match},
                            .service_ms = known[i].service_ms,
                            .number = static_cast<uint32_t>(i)});
    }
    router::PolicyInput input{
        .candidates = candidates,
        .conversation_id = conversation,
        .tokens_known = true,
        .prompt_tokens = prompt.tokens,
        .store_tokens = std::min(stored * work_.tokens_per_block, prompt.tokens),
        .branch_tokens = BranchTokens(prompt),
        .draw = random_.Next(),
        .turn = turns_++};
    for (size_t i = 1; i < prompt.after.size(); ++i) {
      next_[prompt.after[i - 1]].insert(prompt.after[i]);
    }
    const RoutingDecision decision = policy_.Decide(input);
    const CandidateCost* cost =
        decision.candidates.empty() ? nullptr : &decision.candidates[decision.candidate];
    Dispatch(session, turn, candidates[decision.candidate].number, cost, &known);
  }

  void Dispatch(const Session& session, size_t turn, size_t chosen, const CandidateCost* cost,
                std::vector<Known>* known) {
    const Prompt& prompt = session.turns[turn];
    SimReplica& replica = replicas_[chosen];
    const bool may_load = cost == nullptr || cost->remote_tokens > 0;
    const double luck = static_cast<double>(random_.Next() >> 11) / 0x1p53;
    const SimReplica::Served served = replica.Serve(prompt, now_, may_load, store_, luck);
    result_.outcomes.push_back({.at_ms = now_,
                                .ttft_ms = served.first_token_ms - now_,
                                .predicted_ms = cost == nullptr ? 0 : cost->ttft_ms,
                                .replica = chosen,
                                .prompt_tokens = prompt.tokens,
                                .cached_tokens = served.cached_tokens,
                                .loaded_tokens = served.loaded_tokens});
    Known& k = (*known)[chosen];
    ++k.view.in_flight;
    const double sent = now_;
    ++waiting_[chosen];
    const auto flight =
        k.estimate.OnSent(cost == nullptr ? 0 : cost->load_ms + cost->prefill_ms, At(now_));
    const uint64_t life = replica.lives;
    Later(served.first_token_ms, [=, this, &replica] {
      if (replica.lives != life) return (*known)[chosen].estimate.OnEnd(flight);
      if (shape_.streams) (*known)[chosen].estimate.OnFirstToken(flight, At(now_));
      --waiting_[chosen];
      ++running_[chosen];
    });
    Later(served.end_ms, [=, this, &replica, &session] {
      Known& k = (*known)[chosen];
      if (shape_.routers > 1 && sent < reported_ms_) {
        if (k.view.load.running > 0) --k.view.load.running;
      } else {
        --k.view.in_flight;
      }
      if (replica.lives != life) {
        ++result_.cut;
        Later(now_ + 100, [this, &session, turn] { Send(session, turn); });
        return;
      }
      --running_[chosen];
      if (!shape_.streams) k.estimate.OnWholeReply(flight, At(now_));
      const double service_ms = served.end_ms - (shape_.streams ? served.first_token_ms : sent);
      k.service_ms += (k.service_ms == 0 ? 1 : 0.2) * (service_ms - k.service_ms);
      k.estimate.OnReply(flight,
                         {.prompt = session.turns[turn].tokens,
                          .cached = served.cached_tokens,
                          .loaded = served.loaded_tokens,
                          .output = session.turns[turn].output_tokens},
                         At(now_));
      k.estimate.OnEnd(flight);
      replica.Finish(session.turns[turn]);
      if (shape_.engine.load_tokens_per_ms > 0) {
        for (const uint64_t block : session.turns[turn].after) store_.insert(block);
      }
      Later(now_ + session.think_ms[turn], [this, &session, turn] { Send(session, turn + 1); });
    });
  }

  const FleetShape& shape_;
  const Work& work_;
  const router::Policy& policy_;
  SeededRandom random_;
  std::vector<SimReplica> replicas_;
  std::vector<std::vector<Known>> routers_;
  std::vector<size_t> running_, waiting_;
  std::vector<bool> usable_;
  StoredBlocks store_;
  std::unordered_map<uint64_t, std::unordered_set<uint64_t>> next_;  // of each block that was seen
  double now_ = 0, reported_ms_ = 0;
  uint64_t next_event_ = 0;
  uint64_t turns_ = 0;
  size_t sessions_left_ = work_.sessions.size();
  std::map<std::pair<double, uint64_t>, std::function<void()>> events_;  // by time
  Result result_;
};

}  // namespace

Result Simulate(const FleetShape& shape, const Work& work, const router::Policy& policy,
                uint64_t seed) {
  return Run(shape, work, policy, seed).Go();
}

}  // namespace ember::sim
