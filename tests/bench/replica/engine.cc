#include "tests/bench/replica/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ember::bench {
namespace {

constexpr double kSlowLoad = 5;

}  // namespace

Engine::Ticket Engine::Arrive(SharedPrompt prompt, double now) {
  line_.push_back({.ticket = next_, .prompt = std::move(prompt), .ready = now});
  return next_++;
}

bool Engine::Hint(const Prompt& prompt, uint64_t wanted, double now) {
  return loads() && Load(prompt, wanted / kTokensPerBlock, now) > now;
}

size_t Engine::There(const Prompt& prompt, double now) const {
  const std::vector<uint64_t>& names = prompt.chain.names;
  size_t there = cache_.Match(names);
  for (; there < names.size(); ++there) {
    const auto it = arriving_.find(names[there]);
    if (it == arriving_.end() || it->second > now) break;
  }
  return there;
}

double Engine::Load(const Prompt& prompt, size_t end_block, double now) {
  const std::vector<uint64_t>& names = prompt.chain.names;
  std::vector<uint64_t> missing;
  double ready = 0;
  for (size_t i = cache_.Match(names); i < std::min(end_block, names.size()); ++i) {
    if (const auto it = arriving_.find(names[i]); it != arriving_.end()) {
      ready = std::max(ready, it->second);
    } else if (store_->contains(names[i])) {
      missing.push_back(names[i]);
    } else {
      break;
    }
  }
  if (missing.empty()) return ready;
  // Evenly among the loads: with a share of a tenth every tenth is slow.
  const double before = loads_begun_ * shape_.slow_loads;
  loads_begun_ += 1;
  const bool slow = std::floor(loads_begun_ * shape_.slow_loads) > std::floor(before);
  const double ms = static_cast<double>(missing.size() * kTokensPerBlock) /
                    shape_.load_tokens_per_ms * (slow ? kSlowLoad : 1);
  channel_free_ = std::max(channel_free_, now) + ms;
  for (const uint64_t name : missing) arriving_[name] = channel_free_;
  return std::max(ready, channel_free_);
}

std::optional<Engine::Work> Engine::Next(double now) {
  for (auto it = line_.begin(); it != line_.end(); ++it) {
    if (!it->considered && loads()) {
      it->ready = std::max(it->ready, Load(*it->prompt, it->prompt->chain.names.size(), now));
    }
    it->considered = true;
    if (it->ready > now) continue;
    const Waiting first = std::move(*it);
    line_.erase(it);
    return Begin(first, now);
  }
  return std::nullopt;
}

Engine::Work Engine::Begin(const Waiting& first, double now) {
  const Prompt& prompt = *first.prompt;
  const uint64_t held = cache_.Match(prompt.chain.names) * kTokensPerBlock;
  Work work{.ticket = first.ticket,
            .prompt = first.prompt,
            .cached_tokens = There(prompt, now) * kTokensPerBlock};
  if (work.cached_tokens >= prompt.tokens) {  // at least the last block is computed
    work.cached_tokens = prompt.tokens - std::min<uint64_t>(prompt.tokens, kTokensPerBlock);
  }
  work.loaded_tokens = work.cached_tokens - std::min(work.cached_tokens, held);
  // Not from now on: the clock that wakes us is late.
  free_ = std::max(free_, first.ready) +
          shape_.prefill.PredictMs(prompt.tokens - work.cached_tokens, work.cached_tokens);
  work.end = free_;
  for (const uint64_t name : prompt.chain.names) arriving_.erase(name);
  cache_.Insert(prompt.chain.names);
  return work;
}

double Engine::NextReady() const {
  double next = std::numeric_limits<double>::infinity();
  for (const Waiting& w : line_) next = std::min(next, w.ready);
  return next;
}

void Engine::Keep(const Chain& chain) {
  cache_.Insert(chain.names);
  if (loads()) store_->insert(chain.names.begin(), chain.names.end());
}

void Engine::Clear() {
  cache_.Clear();
  line_.clear();
  arriving_.clear();
  channel_free_ = free_ = 0;
}

}  // namespace ember::bench
