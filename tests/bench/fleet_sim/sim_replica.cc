#include "tests/bench/fleet_sim/sim_replica.h"

#include <algorithm>

namespace ember::sim {
namespace {

constexpr double kSlowLoad = 5;

}  // namespace

uint64_t SimReplica::MatchTokens(const Prompt& prompt) const {
  return std::min(cache_.Match(prompt.blocks) * tokens_per_block_, prompt.tokens);
}

SimReplica::Served SimReplica::Serve(const Prompt& prompt, double now, bool load,
                                     const StoredBlocks& store, double luck) {
  Served served;
  uint64_t held = cache_.Match(prompt.blocks);
  double ready = now;
  if (load && shape_.load_tokens_per_ms > 0) {
    uint64_t stored = held;
    while (stored < prompt.blocks.size() && store.contains(prompt.blocks[stored])) ++stored;
    served.loaded_tokens = (stored - held) * tokens_per_block_;
    held = stored;
    const double ms = static_cast<double>(served.loaded_tokens) / shape_.load_tokens_per_ms *
                      (luck < shape_.slow_loads ? kSlowLoad : 1);
    if (served.loaded_tokens > 0) ready = channel_until_ = std::max(channel_until_, now) + ms;
  }
  served.cached_tokens = held * tokens_per_block_;
  if (served.cached_tokens >= prompt.tokens) {  // at least the last block is computed
    served.cached_tokens = prompt.tokens - std::min(prompt.tokens, tokens_per_block_);
  }
  served.loaded_tokens = std::min(served.loaded_tokens, served.cached_tokens);
  busy_until_ =
      std::max(busy_until_, ready) +
      shape_.prefill.PredictMs(prompt.tokens - served.cached_tokens, served.cached_tokens);
  cache_.Insert(prompt.blocks);
  served.first_token_ms = busy_until_;
  const uint64_t waited_for =
      prompt.output_tokens - std::min(prompt.output_tokens, shape_.chunk_tokens);
  served.end_ms = busy_until_ + shape_.token_ms * static_cast<double>(waited_for);
  return served;
}

void SimReplica::Kill() {
  cache_.Clear();
  busy_until_ = channel_until_ = 0;
  up = false;
  ++lives;
}

}  // namespace ember::sim
