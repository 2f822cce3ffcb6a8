#include "client/store_client/lease_desk.h"

namespace ember {
namespace {

constexpr Duration kReleaseTimeout = seconds(1);

io::Task<void> SendRelease(io::Loop& loop, Lease::Part part) {
  const Bytes meta = Encode(wire::Release{part.id});
  // Lost when the node can't be reached; the lease ends by itself.
  (void)co_await part.peer->Exchange(
      cluster::Lane::kLoad, loop.Now() + kReleaseTimeout, [&](cluster::Connection& connection) {
        return connection.Send(wire::FrameType::kRelease, connection.NextRequestId(), meta);
      });
}

}  // namespace

void Lease::Release() {
  if (parts_.empty()) return;
  if (const std::shared_ptr<LeaseDesk> desk = desk_.lock()) desk->Release(std::move(parts_));
  parts_.clear();
}

void LeaseDesk::Release(std::vector<Lease::Part> parts) {
  const std::lock_guard lock(mutex_);
  if (context_ == nullptr) return;
  context_->shared_loop.Post([context = context_, parts = std::move(parts)] {
    for (const Lease::Part& part : parts) context->Spawn(SendRelease(context->loop, part));
  });
}

void LeaseDesk::Close() {
  const std::lock_guard lock(mutex_);
  context_ = nullptr;
}

}  // namespace ember
