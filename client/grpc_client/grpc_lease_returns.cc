#include "client/grpc_client/grpc_lease_returns.h"

#include <system_error>
#include <utility>

namespace ember {

void GrpcLeaseReturns::Add(const std::vector<Return>& returns) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  returns_.insert(returns_.end(), returns.begin(), returns.end());
  wake_.notify_one();
  if (thread_.joinable()) return;
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error&) {
    // The system has no thread for it: then the next release, or the lease's deadline.
  }
}

void GrpcLeaseReturns::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return closed_ || !returns_.empty(); });
    if (returns_.empty()) return;
    const std::vector<Return> taken = std::exchange(returns_, {});
    lock.unlock();
    for (const Return& one : taken) {
      const Status status = one.node->Release(one.leases);
      lock.lock();
      if (closed_ && !status.ok()) return;
      lock.unlock();
    }
    lock.lock();
  }
}

void GrpcLeaseReturns::Close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace ember
