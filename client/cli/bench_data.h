// What the benchmarks share: a namespace of their own, random bytes, an address for a node of
// theirs.
#pragma once

#include <string>

#include "client/io/stream.h"
#include "proto/base/bytes.h"
#include "proto/model/kv_namespace.h"

namespace ember::cli {

inline constexpr uint32_t kBenchTokensPerBlock = 64;  // a block is a segment

// With a random salt a run never meets the keys of another.
KvNamespace BenchNamespace(std::string salt);
std::string RandomSalt();

// The same bytes each time, none of which repeat within what a benchmark puts.
void FillWithPattern(MutableByteSpan out);

// Nobody listened there a moment ago.
Result<io::Endpoint> FreeLoopbackEndpoint();

}  // namespace ember::cli
