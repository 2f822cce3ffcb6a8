// RequestTrace: which blocks a sequence of requests asked for, read from a file in the format that
// the Mooncake project publishes its traces in: one JSON object a line, of whose fields
// `hash_ids` counts: the ids of the request's prefix blocks in order. An id names the whole prefix
// up to its block, like a BlockHash.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/status.h"

namespace ember::kv {

struct RequestTrace {
  std::string name;                             // the file's, without its folder
  std::vector<std::vector<uint32_t>> requests;  // ids renumbered from 0 in order of appearance
  uint32_t distinct_blocks = 0;
  uint64_t lookups = 0;  // blocks of all requests

  void Add(std::vector<uint32_t> blocks);
};

// kNotFound, kInvalid (with the line) or kUnavailable with the reason.
Result<RequestTrace> ReadRequestTrace(const std::string& path);

}  // namespace ember::kv
