// Decodes one batch of KV events as vLLM and SGLang publish them: MessagePack, as
// [timestamp, events, rank] or as a map of these names; an event is a tag-first array or a map with
// "type". Thread-safe; a pure function.
#pragma once

#include "proto/base/status.h"
#include "router/events/kv_event.h"

namespace ember::router {

// A longer event is cut into several, so that whoever applies them can stop in between.
inline constexpr size_t kMaxBlocksPerEvent = 512;
// An event that leaves blocks out is told as a whole.
inline constexpr size_t kMaxSparseBlocks = 8192;

// kCorrupt: not MessagePack, or
// a removal that can't be read, after which nobody knows what is held. What is only not understood
// (a type, a field, a medium) is counted and passed over.
Result<KvEventBatch> DecodeKvEventBatch(ByteSpan payload, const EngineKeyFold& keys);

}  // namespace ember::router
