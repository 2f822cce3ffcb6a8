// TierContext: what the parts of one shard's disk tier share. The loop's thread only.
#pragma once

#include "client/io/gate.h"
#include "client/io/loop.h"
#include "kvstore/disk/catalog_writer.h"
#include "kvstore/disk/disk_metrics.h"
#include "kvstore/disk/disk_options.h"
#include "kvstore/engine/shard_engine.h"
#include "proto/base/random.h"

namespace ember::kv {

struct TierContext {
  io::Loop* loop = nullptr;
  ShardEngine* engine = nullptr;
  RandomSource* random = nullptr;
  DiskMetrics* metrics = nullptr;
  DiskOptions options;
  CatalogWriter catalog;
  io::Gate gate = {};  // of everything that runs in the background
  bool closing = false;

  io::FileSystem& files() const { return loop->files(); }
  double Seconds(TimePoint since) const {
    return std::chrono::duration<double>(loop->Now() - since).count();
  }
};

}  // namespace ember::kv
