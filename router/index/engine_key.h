// EngineKey: an engine's own name of one of its blocks, folded to 64 bits. Engines publish names as
// signed or unsigned integers or as byte strings of any width; each is folded at full width
// together with its form and cache group, so that no two of them meet but by the accident of 64
// bits, and with a secret seed, so that nobody outside can make them meet.
#pragma once

#include <cstdint>

#include "proto/base/bytes.h"

namespace ember::router {

enum class EngineKey : uint64_t {};

class EngineKeyFold {
 public:
  // Keys of different seeds have nothing to do with each other.
  explicit EngineKeyFold(uint64_t seed) : seed_(seed) {}

  // A number that arrived as signed is the same name as the equal one that arrived as unsigned, but
  // -1 is not 2^64-1. `group`: the cache group that the event speaks of.
  EngineKey OfSigned(int64_t name, uint32_t group = 0) const;
  EngineKey OfUnsigned(uint64_t name, uint32_t group = 0) const;
  EngineKey OfBytes(ByteSpan name, uint32_t group = 0) const;

 private:
  uint64_t seed_;
};

}  // namespace ember::router
