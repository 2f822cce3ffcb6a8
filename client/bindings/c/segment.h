// ember_segment as our SegmentRef, and back. Pure functions.
#pragma once

#include <cstring>

#include "client/bindings/c/ember.h"
#include "proto/model/segment.h"

namespace ember::c {

inline ember_segment FromRef(const SegmentRef& ref) {
  ember_segment out{};
  std::memcpy(out.ns, ref.key.ns.bytes.data(), sizeof out.ns);
  std::memcpy(out.hash, ref.key.hash.bytes.data(), sizeof out.hash);
  std::memcpy(out.placement, ref.placement.bytes.data(), sizeof out.placement);
  std::memcpy(out.proof, ref.proof.data(), sizeof out.proof);
  out.first_block = ref.first_block;
  out.block_count = ref.block_count;
  return out;
}

inline SegmentRef ToRef(const ember_segment& in) {
  SegmentRef ref;
  std::memcpy(ref.key.ns.bytes.data(), in.ns, sizeof in.ns);
  std::memcpy(ref.key.hash.bytes.data(), in.hash, sizeof in.hash);
  std::memcpy(ref.placement.bytes.data(), in.placement, sizeof in.placement);
  std::memcpy(ref.proof.data(), in.proof, sizeof in.proof);
  ref.first_block = in.first_block;
  ref.block_count = in.block_count;
  return ref;
}

}  // namespace ember::c
