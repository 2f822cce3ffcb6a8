// Seeds: runs one simulated history per seed, and says how to repeat the one that failed.
#pragma once

#include <cstdint>
#include <functional>

namespace ember::sim {

// Calls `run` with seeds 1 to `count`, until one fails a GoogleTest expectation. The environment
// changes that: EMBER_SIM_SEED=N runs that seed alone, EMBER_SIM_SEEDS=F runs F times as many,
// EMBER_SIM_FIRST=N begins at N. When a seed fails or the process aborts, stderr has the line that
// repeats it.
void ForEachSeed(uint64_t count, const std::function<void(uint64_t seed)>& run);

// Whether EMBER_SIM_SEED asks for one seed: then no test can expect to have seen everything.
bool Replaying();

// For counts of seeds, and what is expected of them all: a fifth of it under sanitizers.
constexpr uint64_t Scaled(uint64_t count) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return count / 5;
#endif
#endif
  return count;
}

}  // namespace ember::sim
