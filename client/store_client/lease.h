// Lease: keeps what a Match found from being evicted, until it is released.
//
// Move-only; releasing (or destroying) it never blocks and may come from any thread, also after the
// client is gone. A lease ends by itself at its deadline, when its connection breaks, and with the
// client; so a Get under a lease may still miss, and says why. (Over gRPC, which knows no
// connections, it ends at its deadline only.)
#pragma once

#include <functional>
#include <utility>

namespace ember {

class Lease {
 public:
  Lease() = default;
  // `release` tells the nodes, some time soon; under the conditions above. It is called once.
  explicit Lease(std::function<void()> release) : release_(std::move(release)) {}
  Lease(Lease&& other) noexcept : release_(std::exchange(other.release_, nullptr)) {}
  Lease& operator=(Lease&& other) noexcept {
    std::swap(release_, other.release_);
    return *this;
  }
  ~Lease() { Release(); }

  void Release() {
    if (const auto release = std::exchange(release_, nullptr)) release();
  }
  // Some node gave one: not when nothing was there, or when the nodes' bounds were reached.
  bool held() const { return release_ != nullptr; }

 private:
  std::function<void()> release_;
};

}  // namespace ember
