// ShardDoor: how gRPC's threads reach a shard: by a function or a coroutine posted to its loop,
// waited for with a deadline.
//
// A plain value that points; loop, engine and log outlive who holds it.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <span>

#include "client/io/sync.h"
#include "kvstore/disk/disk_tier.h"
#include "kvstore/engine/shard_engine.h"
#include "kvstore/server/feed_log.h"

namespace ember::kv {

struct ShardDoor {
  uint32_t number = 0;
  io::Loop* loop = nullptr;
  ShardEngine* engine = nullptr;  // in posted functions only
  DiskTier* disk = nullptr;       // likewise; null: no disk tier
  const FeedLog* feed = nullptr;  // from any thread
};

// The shard that a segment of this placement group belongs to.
const ShardDoor& DoorOf(std::span<const ShardDoor> shards, const NamespaceId& ns,
                        const BlockHash& placement);

// What both ways of asking share: waits for the answer, or its deadline.
template <typename T>
Result<T> WaitFor(std::future<Result<T>> future, Duration timeout) {
  if (future.wait_for(timeout) != std::future_status::ready) {
    return DeadlineError("the shard's thread does not answer");
  }
  try {
    return future.get();
  } catch (const std::future_error&) {
    return CancelledError("the node has stopped");
  }
}

// Runs `work` on the shard's thread and waits for its result. Any thread but the shard's.
// kDeadline: it did not answer in time; the work may still be done later, so it must own what it
// uses. kCancelled: the node has stopped.
template <typename T>
Result<T> AskShard(const ShardDoor& shard, Duration timeout,
                   std::function<Result<T>(ShardEngine&)> work) {
  auto promise = std::make_shared<std::promise<Result<T>>>();
  std::future<Result<T>> answer = promise->get_future();
  shard.loop->Post([engine = shard.engine, promise = std::move(promise), work = std::move(work)] {
    promise->set_value(work(*engine));
  });
  return WaitFor(std::move(answer), timeout);
}

// The same with a task, which may wait for the disk. The tier is closed after whoever asks it.
template <typename T>
Result<T> AwaitShard(const ShardDoor& shard, Duration timeout,
                     std::function<io::Task<Result<T>>(const ShardDoor&)> make) {
  auto promise = std::make_shared<std::promise<Result<T>>>();
  std::future<Result<T>> answer = promise->get_future();
  shard.loop->Post([shard, promise = std::move(promise), make = std::move(make)]() mutable {
    // The door lies beside the function, in the frame that outlives its task.
    std::function<io::Task<Result<T>>()> run = [shard, make = std::move(make)] {
      return make(shard);
    };
    io::internal::Fulfil<Result<T>>(std::move(run), std::move(promise));
  });
  return WaitFor(std::move(answer), timeout);
}

}  // namespace ember::kv
