// PostQueue: how other threads reach a loop. A locked list of functions and an eventfd that wakes
// it.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "client/io/file_descriptor.h"
#include "proto/base/status.h"

namespace ember::io {

class PostQueue {
 public:
  // A non-blocking eventfd; kBusy when the process is out of descriptors.
  static Result<FileDescriptor> MakeWakeDescriptor();
  explicit PostQueue(FileDescriptor wake) : wake_(std::move(wake)) {}

  // Any thread. True when the loop must be woken: it may have seen the queue empty.
  bool Push(std::function<void()> fn);
  void Wake() { Wake(wake_.get()); }
  // Of any queue's descriptor.
  static void Wake(int wake_fd);

  // The loop's thread.
  std::vector<std::function<void()>> Take();
  // Resets the eventfd; call before Take, so that no later Push goes unseen.
  void ClearWake();
  // Drops what is queued and whatever is pushed from now on.
  void Close();
  bool empty();
  int wake_fd() const { return wake_.get(); }

 private:
  FileDescriptor wake_;
  std::mutex mutex_;
  std::vector<std::function<void()>> queue_;
  bool closed_ = false;
};

}  // namespace ember::io
