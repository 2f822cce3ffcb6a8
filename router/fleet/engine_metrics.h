// What an engine's own /metrics says of its load, by data-parallel rank: vLLM, SGLang and
// llama.cpp by the names that they use. A pure function of outside text: bounded by its input,
// numbers are finite and in range, unknown names are passed over. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

namespace ember::router {

struct EngineLoad {
  uint32_t running = 0;
  uint32_t waiting = 0;
  double kv_usage = 0;           // of its KV cache by running requests, 0 to 1
  uint64_t capacity_tokens = 0;  // of its KV cache; 0: not told
};

// Empty: the text names none of the known load figures.
std::map<uint32_t, EngineLoad> ReadEngineMetrics(std::string_view text);

// All ranks as one engine.
EngineLoad SumOf(const std::map<uint32_t, EngineLoad>& ranks);

}  // namespace ember::router
