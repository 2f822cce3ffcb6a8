// Cancellation: tells waiting work that nobody wants its result any more (the client is gone, the
// owner changed its mind). Whoever can stop registers a callback; Cancel() runs them all, at once.
//
// Concurrency: one strand, that of the request it belongs to. No locks.
// Life: the Cancellation must outlive its Registrations.
#pragma once

#include <functional>
#include <list>

#include "proto/base/status.h"

namespace ember::http {

class Cancellation {
 public:
  using Callback = std::function<void()>;

  // Move-only; unregisters when destroyed.
  class [[nodiscard]] Registration {
   public:
    Registration() = default;
    Registration(Registration&& other) noexcept;
    Registration& operator=(Registration&& other) noexcept;
    ~Registration() { Reset(); }
    void Reset();

   private:
    friend class Cancellation;
    Registration(Cancellation* owner, std::list<Callback>::iterator at) : owner_(owner), at_(at) {}
    Cancellation* owner_ = nullptr;
    std::list<Callback>::iterator at_;
  };

  Cancellation() = default;
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  // Runs `callback` on Cancel(), inside it; at once when already cancelled.
  Registration OnCancel(Callback callback);
  // Idempotent. A callback may destroy its own and other Registrations.
  void Cancel();
  bool cancelled() const { return cancelled_; }

 private:
  std::list<Callback> callbacks_;
  bool cancelled_ = false;
};

}  // namespace ember::http
