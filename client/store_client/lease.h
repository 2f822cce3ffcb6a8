// Lease: keeps what a Match found from being evicted, until it is released.
//
// Move-only; releasing (or destroying) it never blocks and may come from any thread, also after the
// client is gone. A lease ends by itself at its deadline, when its connection breaks, and with the
// client; so a Get under a lease may still miss, and says why.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace ember {

namespace cluster {
class Peer;
}
class LeaseDesk;

class Lease {
 public:
  // One shard's part of it.
  struct Part {
    std::shared_ptr<cluster::Peer> peer;
    uint64_t id = 0;
  };

  Lease() = default;
  Lease(std::weak_ptr<LeaseDesk> desk, std::vector<Part> parts)
      : desk_(std::move(desk)), parts_(std::move(parts)) {}
  Lease(Lease&& other) noexcept : desk_(std::move(other.desk_)), parts_(std::move(other.parts_)) {
    other.parts_.clear();
  }
  Lease& operator=(Lease&& other) noexcept {
    std::swap(desk_, other.desk_);
    std::swap(parts_, other.parts_);
    return *this;
  }
  ~Lease() { Release(); }

  void Release();
  // Some node gave one: not when nothing was there, or when the nodes' bounds were reached.
  bool held() const { return !parts_.empty(); }

 private:
  std::weak_ptr<LeaseDesk> desk_;
  std::vector<Part> parts_;
};

}  // namespace ember
