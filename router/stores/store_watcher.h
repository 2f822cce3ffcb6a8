// StoreWatcher: follows one store node's feed and tells the listener, on the router's loop, what
// the node holds; after a loss it takes a new snapshot, so that what is known is never older than
// the connection.
//
// Concurrency: a thread of its own (FeedReader's). The listener is called on the loop's thread
// only, some events at a time: a slow loop holds the reader back, and the node never notices. Life:
// loop and listener must outlive it; not destroyed from within the listener.
#pragma once

#include <memory>
#include <string>

#include "client/http/loop.h"
#include "router/stores/store_event.h"

namespace ember::router {

class StoreWatcher {
 public:
  // `address`: HOST:PORT of the node's gRPC door.
  StoreWatcher(http::HttpLoop& loop, StoreListener& listener, StoreNumber store,
               const std::string& address);
  ~StoreWatcher();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ember::router
