// NetworkFaults: how a SimNetwork behaves: delays and buffers, and how often what goes wrong.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "proto/base/time.h"

namespace ember::sim {

enum class NetworkFault { kReset, kHalfOpen, kStall, kRefused, kBusyAccept };
inline constexpr size_t kNetworkFaultCount = 5;

struct NetworkFaults {
  Duration delay_min = microseconds(10);  // one way
  Duration delay_max = microseconds(200);
  size_t buffer_min = 4 << 10;  // of one direction of a connection: in flight and not yet read
  size_t buffer_max = 256 << 10;
  size_t piece_max = 64 << 10;  // written at once
  // Probabilities: of a short read; for each piece written, that it resets the connection, that
  // nothing arrives any more in either direction and nobody is told, that it is late by up to
  // `stall_max`; for each connect, that it is refused; for each accept, that descriptors have run
  // out.
  double short_read = 0.25;
  double reset = 0;
  double half_open = 0;
  double stall = 0;
  Duration stall_max = seconds(2);
  double refused = 0;
  double busy_accept = 0;
};

// How many were injected.
struct NetworkFaultCount {
  std::array<uint64_t, kNetworkFaultCount> of{};
  uint64_t& operator[](NetworkFault fault) { return of[static_cast<size_t>(fault)]; }
  uint64_t total() const {
    uint64_t sum = 0;
    for (uint64_t n : of) sum += n;
    return sum;
  }
};

}  // namespace ember::sim
