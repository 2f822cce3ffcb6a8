#include "tests/bench/fleet_sim/work.h"

#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "proto/base/random.h"

namespace ember::sim {
namespace {

double Uniform(SeededRandom& random) { return static_cast<double>(random.Next() >> 11) / 0x1p53; }
double Exponential(SeededRandom& random) { return -std::log(1 - Uniform(random)); }

constexpr uint64_t kTokenBytes = 4;
// Around messages: "<|system|>", "<|user|>" and "<|assistant|>", each with its line ends.
constexpr uint64_t kSystemBytes = 12, kUserBytes = 10, kAssistantHeadBytes = 14;

uint64_t NameOf(uint64_t owner, uint64_t position) { return owner << 24 | position; }

}  // namespace

Work MakeChat(const std::string& name, const ChatShape& shape, uint64_t seed) {
  Work work{.name = name, .end_ms = shape.seconds * 1000};
  SeededRandom arrivals(seed);
  std::vector<double> popularity;
  double total = 0;
  for (size_t i = 0; i < shape.system_prompts; ++i) {
    popularity.push_back(total += std::pow(static_cast<double>(i + 1), -shape.zipf));
  }
  double now = 0;
  for (uint64_t id = 1;; ++id) {
    now += Exponential(arrivals) / shape.sessions_per_s * 1000;
    if (now > work.end_ms) break;
    SeededRandom random(seed * 7919 + id);
    const auto system = static_cast<uint64_t>(
        std::lower_bound(popularity.begin(), popularity.end(), Uniform(random) * total) -
        popularity.begin());
    Session session{.start_ms = now};
    const uint64_t block_bytes = work.tokens_per_block * kTokenBytes;
    uint64_t bytes = shape.system_tokens * kTokenBytes + kSystemBytes;
    const uint64_t shared_blocks = bytes / block_bytes;
    const auto blocks_of = [&](uint64_t up_to) {
      std::vector<uint64_t> blocks;
      for (uint64_t b = 0; b < up_to / block_bytes; ++b) {
        blocks.push_back(NameOf(b < shared_blocks ? system : 1000 + seed * 100000 + id, b));
      }
      return blocks;
    };
    for (size_t turn = 0; turn < shape.turns; ++turn) {
      const auto user = static_cast<double>(shape.user_tokens) * (0.5 + Uniform(random));
      bytes += static_cast<uint64_t>(user) * kTokenBytes + kUserBytes + kAssistantHeadBytes;
      const uint64_t answer = shape.output_tokens * kTokenBytes;
      session.turns.push_back(
          {blocks_of(bytes), blocks_of(bytes + answer), bytes / kTokenBytes, shape.output_tokens});
      bytes += answer + 1;
      session.think_ms.push_back(Exponential(random) * shape.think_s * 1000);
    }
    work.sessions.push_back(std::move(session));
  }
  return work;
}

Work ReadTrace(const std::string& path, double speed, size_t limit) {
  Work work{.name = std::filesystem::path(path).stem(), .tokens_per_block = 512};
  simdjson::dom::parser parser;
  simdjson::dom::document_stream lines;
  if (parser.load_many(path).get(lines) != simdjson::SUCCESS) {
    std::fprintf(stderr, "%s: cannot be read\n", path.c_str());
    std::exit(1);
  }
  for (const simdjson::dom::element line : lines) {
    if (limit > 0 && work.sessions.size() == limit) break;
    Session session{.start_ms = double(line["timestamp"]) / speed};
    Prompt prompt{.tokens = uint64_t(line["input_length"]),
                  .output_tokens = uint64_t(line["output_length"])};
    for (const uint64_t id : line["hash_ids"]) prompt.blocks.push_back(id);
    prompt.after = prompt.blocks;
    session.turns.push_back(std::move(prompt));
    session.think_ms.push_back(0);
    work.sessions.push_back(std::move(session));
  }
  return work;
}

}  // namespace ember::sim
