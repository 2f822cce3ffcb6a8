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

}  // namespace ember::sim
