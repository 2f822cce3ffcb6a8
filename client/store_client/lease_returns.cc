#include "client/store_client/lease_returns.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "proto/wire/messages.h"

namespace ember {
namespace {

constexpr Duration kLinger = milliseconds(5);

}  // namespace

void LeaseReturns::Add(const PeerPtr& peer, uint64_t lease_id) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  if (returns_.empty()) oldest_ = std::chrono::steady_clock::now();
  // Reads in a row must not wake the thread each time.
  if (std::exchange(idle_, false)) wake_.notify_one();
  returns_.push_back({peer, lease_id});
  if (thread_.joinable()) return;
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error&) {
    // The system has no thread for it: then the next request, or the lease's deadline.
  }
}

Bytes LeaseReturns::TakeFrames(const cluster::Peer* peer) {
  Bytes frames;
  const std::lock_guard lock(mutex_);
  std::erase_if(returns_, [&](const Return& r) {
    if (r.peer.get() != peer) return false;
    wire::AppendFrameHead(wire::FrameType::kRelease, /*request_id=*/0,
                          Encode(wire::Release{r.lease_id}), /*payload_length=*/0, &frames);
    return true;
  });
  return frames;
}

std::vector<LeaseReturns::PeerPtr> LeaseReturns::Pending() {
  std::vector<PeerPtr> peers;
  const std::lock_guard lock(mutex_);
  for (const Return& r : returns_) {
    if (std::ranges::find(peers, r.peer) == peers.end()) peers.push_back(r.peer);
  }
  return peers;
}

void LeaseReturns::Run() {
  std::unique_lock lock(mutex_);
  while (!closed_) {
    if (returns_.empty()) {
      idle_ = true;
      wake_.wait(lock);
      continue;
    }
    // Requests take them away all the time; only those that none took are our business.
    const TimePoint due = oldest_ + kLinger;
    if (std::chrono::steady_clock::now() < due) {
      wake_.wait_until(lock, due);
      continue;
    }
    oldest_ += kLinger;  // not again before they had time to go
    lock.unlock();
    flush_();
    lock.lock();
  }
}

void LeaseReturns::Close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace ember
