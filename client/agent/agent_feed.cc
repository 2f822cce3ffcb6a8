#include "client/agent/agent_feed.h"

#include <algorithm>

#include "proto/base/random.h"

namespace ember::agent {

AgentFeed::AgentFeed() : incarnation_(SystemRandom().Next()) {}

void AgentFeed::Publish(std::variant<FeedSnapshot, FeedHeld, FeedReport> what) {
  ++sequence_;
  for (Watcher* watcher : watchers_) {
    if (watcher->cut_off_) continue;
    if (watcher->events_.size() >= kMaxBuffered) {
      watcher->cut_off_ = true;
      watcher->events_.clear();
      continue;
    }
    watcher->events_.push_back({sequence_, what});
  }
  changed_.notify_all();
}

void AgentFeed::SetHeld(uint32_t slot, std::vector<BlockHash> blocks) {
  std::lock_guard lock(mutex_);
  auto at = std::ranges::find(state_.held, slot, &FeedHeld::slot);
  if (at == state_.held.end()) {
    if (blocks.empty()) return;
    at = state_.held.insert(at, FeedHeld{slot, {}});
  }
  if (at->blocks == blocks) return;
  at->blocks = std::move(blocks);
  Publish(*at);
}

void AgentFeed::SetReport(const FeedReport& report) {
  std::lock_guard lock(mutex_);
  state_.report = report;
  Publish(report);
}

void AgentFeed::SetIdentity(std::optional<KeySpace> space, std::string model) {
  std::lock_guard lock(mutex_);
  if (state_.space == space && state_.model == model) return;
  state_.space = space;
  state_.model = std::move(model);
  state_.held.clear();
  Publish(state_);
}

FeedSnapshot AgentFeed::Now() const {
  std::lock_guard lock(mutex_);
  return state_;
}

size_t AgentFeed::LongestPrefix(std::span<const BlockHash> chain) const {
  std::lock_guard lock(mutex_);
  size_t best = 0;
  for (const FeedHeld& held : state_.held) {
    const size_t n = std::min(chain.size(), held.blocks.size());
    const auto end = std::mismatch(chain.begin(), chain.begin() + n, held.blocks.begin()).first;
    best = std::max(best, static_cast<size_t>(end - chain.begin()));
  }
  return best;
}

Result<std::unique_ptr<AgentFeed::Watcher>> AgentFeed::Watch() {
  std::lock_guard lock(mutex_);
  if (closed_) return UnavailableError("the agent is stopping");
  if (watchers_.size() >= kMaxWatchers) return BusyError("too many watchers");
  std::unique_ptr<Watcher> watcher(new Watcher(*this));
  watcher->events_.push_back({sequence_, state_});
  watchers_.push_back(watcher.get());
  return watcher;
}

void AgentFeed::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

AgentFeed::Watcher::~Watcher() {
  std::lock_guard lock(feed_.mutex_);
  feed_.watchers_.remove(this);
}

Result<std::optional<FeedEvent>> AgentFeed::Watcher::Next(Duration wait) {
  std::unique_lock lock(feed_.mutex_);
  feed_.changed_.wait_for(lock, wait,
                          [this] { return !events_.empty() || cut_off_ || feed_.closed_; });
  if (cut_off_) return UnavailableError("fell too far behind; watch again");
  if (feed_.closed_) return UnavailableError("the agent is stopping");
  if (events_.empty()) return std::optional<FeedEvent>();
  std::optional<FeedEvent> out(std::move(events_.front()));
  events_.pop_front();
  return out;
}

}  // namespace ember::agent
