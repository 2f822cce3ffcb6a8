// LeaseDesk: where leases are handed back; what is left of a client for the leases that outlive it.
// Any thread.
#pragma once

#include <mutex>

#include "client/store_client/call_context.h"
#include "client/store_client/lease.h"

namespace ember {

class LeaseDesk {
 public:
  explicit LeaseDesk(CallContext* context) : context_(context) {}

  // Tells the nodes, some time soon.
  void Release(std::vector<Lease::Part> parts);
  // The client is about to die; leases end with its connections.
  void Close();

 private:
  std::mutex mutex_;
  CallContext* context_;  // null: closed. Guarded by mutex_
};

}  // namespace ember
