#include "kvstore/server/held_segment.h"

namespace ember::kv {
namespace {

// When the loop has stopped the function is dropped unrun, and the pin with it: the shard's thread
// is gone then, and its engine still there. Reset by hand: a loop may keep functions that have run
// until others have.
void GiveBack(io::Loop* loop, Pin* pin) {
  loop->Post([owned = std::shared_ptr<Pin>(pin)]() mutable { owned.reset(); });
}

io::Task<Result<HeldSegment>> FindAndPin(const ShardDoor& shard, BlockKey key) {
  ShardEngine::Found found = shard.engine->Get(key);
  if (found.on_disk) found = co_await shard.disk->Load(key);
  HeldSegment held{.miss = found.miss, .pin = nullptr, .header = {}, .payload = {}};
  if (!found.pin.held()) co_return held;
  held.header = found.pin.header();
  held.payload = found.pin.payload();
  held.pin = std::shared_ptr<Pin>(new Pin(std::move(found.pin)),
                                  [loop = shard.loop](Pin* pin) { GiveBack(loop, pin); });
  // Moved, so that no copy is left in this frame, which dies after the asker has its answer.
  co_return std::move(held);
}

}  // namespace

Result<HeldSegment> HoldSegment(const ShardDoor& shard, const BlockKey& key, Duration timeout) {
  return AwaitShard<HeldSegment>(shard, timeout,
                                 [key](const ShardDoor& door) { return FindAndPin(door, key); });
}

}  // namespace ember::kv
