// LoopHandover: lets one foreign thread (a reader of events) run work on the loop, one piece at a
// time, waiting for each: a slow loop holds the thread back instead of piling work up.
//
// Concurrency: Run and Pause from the foreign thread, Close from any thread, but not from within
// the work.
// Life: may be destroyed, after Close, before the loop; work that the loop has not begun by then is
// not done.
#pragma once

#include <functional>
#include <memory>

#include "client/http/loop.h"

namespace ember::http {

class LoopHandover {
 public:
  explicit LoopHandover(HttpLoop& loop);

  // Runs `work` on the loop and waits until it has. False: closed; it may not have run.
  bool Run(std::function<void()> work);
  // Waits that long. False: closed meanwhile.
  bool Pause(Duration duration);
  // Ends Run and Pause, and waits for a piece of work that the loop is at. Idempotent.
  void Close();
  bool closed() const;

 private:
  struct State;
  HttpLoop& loop_;
  const std::shared_ptr<State> state_;
  uint64_t posted_ = 0;
};

}  // namespace ember::http
