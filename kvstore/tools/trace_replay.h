// TraceReplay: how much of a trace a store of a given size would have answered.
//
// Hit ratio: of all blocks that requests ask for, the share that lies in the unbroken prefix found
// when the request comes; what lies behind a hole does not count. Then all blocks of the request
// are used in order: those present are touched, the others stored, each in the place of the
// policy's first victim when the store is full. Every block has the same size. What decides is the
// EvictionPolicy that the node runs, not a copy of it.
#pragma once

#include <string_view>

#include "kvstore/tools/request_trace.h"

namespace ember::kv {

// `policy`: one of EvictionPolicyNames(). `capacity`: blocks, at least 1.
double ReplayHitRatio(const RequestTrace& trace, std::string_view policy, uint32_t capacity);

// A bound that no policy passes, even one that knows the future: hits of Belady's MIN with
// bypassing (what is used furthest in the future, be it the new block itself, is not kept) over the
// same sequence of blocks, counting a hit wherever in the request it lies. The hits of a
// prefix are some of those.
double BeladyHitRatio(const RequestTrace& trace, uint32_t capacity);

}  // namespace ember::kv
