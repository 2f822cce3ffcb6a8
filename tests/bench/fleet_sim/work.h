// Work: the requests of a simulated fleet. Open-loop sessions whose turns follow each other, or the
// lines of a trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ember::sim {

// One request as the engine sees it. A block's name stands for all tokens up to its end.
struct Prompt {
  std::vector<uint64_t> blocks;  // whole blocks of the prompt
  std::vector<uint64_t> after;   // of prompt and answer together
  uint64_t tokens = 0;
  uint64_t output_tokens = 0;
};

struct Session {
  double start_ms = 0;
  std::vector<Prompt> turns;
  std::vector<double> think_ms;  // after the answer to each turn
};

struct Work {
  std::string name;
  uint64_t tokens_per_block = 16;
  double end_ms = 0;  // no turn starts later; 0: all do
  std::vector<Session> sessions;
};

// Conversations with shared system prompts, as shared/bench/router's load generator makes them.
struct ChatShape {
  double sessions_per_s = 8;
  size_t turns = 6;
  size_t system_prompts = 8;
  uint64_t system_tokens = 500;
  uint64_t user_tokens = 200;
  uint64_t output_tokens = 32;
  double think_s = 1;
  double zipf = 0;  // exponent of the system prompts' popularity
  double seconds = 30;
};
Work MakeChat(const std::string& name, const ChatShape& shape, uint64_t seed);

// A trace in Mooncake's format: JSON lines with timestamp (ms), input_length, output_length and
// hash_ids of 512-token blocks. `speed` 2 plays it twice as fast. `limit`: lines, 0 for all.
Work ReadTrace(const std::string& path, double speed, size_t limit);

}  // namespace ember::sim
