#include "router/stores/store_watcher.h"

#include <utility>

#include "client/feed/feed_reader.h"
#include "client/http/loop_handover.h"

namespace ember::router {
namespace {

// Bounds how long the loop is taken: about 0.1 ms.
constexpr size_t kEventsAtOnce = 512;

}  // namespace

struct StoreWatcher::Impl final : FeedListener {
  Impl(http::HttpLoop& loop, StoreListener& listener_in, StoreNumber store_in)
      : listener(listener_in), store(store_in), handover(loop) {}

  void OnSnapshot(uint32_t shard, uint32_t shard_count) override {
    Add({.kind = StoreEvent::Kind::kSnapshot, .shard = shard, .shard_count = shard_count});
  }
  void OnStored(uint32_t shard, const FeedItem& item) override {
    Add({.kind = StoreEvent::Kind::kStored, .shard = shard, .tier = item.tier, .key = item.key});
  }
  void OnRemoved(uint32_t shard, const FeedItem& item, std::string_view) override {
    Add({.kind = StoreEvent::Kind::kRemoved, .shard = shard, .tier = item.tier, .key = item.key});
  }
  // Everything that it took was told as removed.
  void OnPurged(uint32_t, const PurgeScope&, uint64_t) override {}
  void OnCurrent(uint32_t shard) override {
    Add({.kind = StoreEvent::Kind::kCurrent, .shard = shard});
  }
  void OnBatchEnd() override { Flush(); }
  void OnLost(const Status& why) override {
    events.clear();
    handover.Run([this, why] { listener.OnLost(store, why); });
  }

  void Add(const StoreEvent& event) {
    events.push_back(event);
    if (events.size() >= kEventsAtOnce) Flush();
  }
  void Flush() {
    if (events.empty()) return;
    handover.Run([this] { listener.OnEvents(store, events); });
    events.clear();
  }

  StoreListener& listener;
  const StoreNumber store;
  http::LoopHandover handover;
  std::vector<StoreEvent> events;
  std::unique_ptr<FeedReader> reader;
};

StoreWatcher::StoreWatcher(http::HttpLoop& loop, StoreListener& listener, StoreNumber store,
                           const std::string& address)
    : impl_(std::make_unique<Impl>(loop, listener, store)) {
  impl_->reader = std::make_unique<FeedReader>(address, *impl_, FeedReader::AfterLoss::kSnapshot);
}

StoreWatcher::~StoreWatcher() {
  impl_->handover.Close();
  impl_->reader.reset();
}

}  // namespace ember::router
