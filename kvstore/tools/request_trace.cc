#include "kvstore/tools/request_trace.h"

#include <simdjson.h>

#include <algorithm>
#include <fstream>
#include <unordered_map>

namespace ember::kv {
namespace {

constexpr size_t kMaxBlocksPerRequest = 1 << 20;
constexpr size_t kMaxDistinctBlocks = 1 << 28;

// One line's ids; kInvalid with the reason.
Result<std::vector<uint64_t>> ReadLine(simdjson::dom::parser* parser, const std::string& line) {
  simdjson::dom::array ids;
  if (auto error = parser->parse(line)["hash_ids"].get(ids); error != simdjson::SUCCESS) {
    return InvalidError(std::string("no array \"hash_ids\": ") + simdjson::error_message(error));
  }
  std::vector<uint64_t> blocks;
  for (simdjson::dom::element id : ids) {
    int64_t value = 0;
    if (id.get(value) != simdjson::SUCCESS || value < 0) {
      return InvalidError("\"hash_ids\" holds something else than numbers from 0");
    }
    blocks.push_back(static_cast<uint64_t>(value));
  }
  if (blocks.size() > kMaxBlocksPerRequest) return InvalidError("too many \"hash_ids\"");
  return blocks;
}

}  // namespace

void RequestTrace::Add(std::vector<uint32_t> blocks) {
  for (uint32_t block : blocks) distinct_blocks = std::max(distinct_blocks, block + 1);
  lookups += blocks.size();
  requests.push_back(std::move(blocks));
}

Result<RequestTrace> ReadRequestTrace(const std::string& path) {
  std::ifstream file(path);
  if (!file) return NotFoundError(path + ": can't be opened");
  RequestTrace trace;
  trace.name = path.substr(path.rfind('/') + 1);
  simdjson::dom::parser parser;
  std::unordered_map<uint64_t, uint32_t> numbers;
  size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty()) continue;
    Result<std::vector<uint64_t>> ids = ReadLine(&parser, line);
    if (!ids.ok()) return ids.status().WithContext(path + ":" + std::to_string(number));
    std::vector<uint32_t> blocks;
    for (uint64_t id : *ids) {
      blocks.push_back(
          numbers.try_emplace(id, static_cast<uint32_t>(numbers.size())).first->second);
    }
    if (numbers.size() > kMaxDistinctBlocks) return InvalidError(path + ": too many blocks");
    trace.Add(std::move(blocks));
  }
  if (file.bad()) return UnavailableError(path + ": reading failed");
  if (trace.lookups == 0) return InvalidError(path + ": no blocks in it");
  return trace;
}

}  // namespace ember::kv
