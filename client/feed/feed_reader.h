// FeedReader: follows one store node's feed and tells a listener what the node holds, for as long
// as it lives: it connects again, with a growing pause, whenever the stream ends, and goes on where
// it stopped when the node still can, or begins with a new snapshot, as asked.
//
// Concurrency: a thread of its own, which calls the listener. Life: the listener outlives it; the
// destructor waits for a call of the listener under way, so it is not for that thread.
#pragma once

#include <memory>
#include <string>

#include "client/feed/feed_listener.h"

namespace ember {

class FeedReader {
 public:
  enum class AfterLoss { kResume, kSnapshot };

  // `address`: HOST:PORT of the node's gRPC door.
  FeedReader(const std::string& address, FeedListener& listener,
             AfterLoss after_loss = AfterLoss::kResume);
  ~FeedReader();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ember
