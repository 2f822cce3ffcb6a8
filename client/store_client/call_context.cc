#include "client/store_client/call_context.h"

#include <array>
#include <cstring>

#include "client/cluster/placement.h"
#include "proto/wire/limits.h"

namespace ember {
namespace {

constexpr Duration kRestartMatters = std::chrono::minutes(10);

// From what tells least to what tells most.
constexpr std::array kByWeight = {
    MissReason::kNone,     MissReason::kNeverStored,   MissReason::kBusy,     MissReason::kDeadline,
    MissReason::kLostNode, MissReason::kEvicted,       MissReason::kExpired,  MissReason::kCorrupt,
    MissReason::kPurged,   MissReason::kLayoutDiffers, MissReason::kOtherSalt};
static_assert(kByWeight.size() == kMissReasonCount);

}  // namespace

const std::vector<size_t>& OwnerList::Of(const SegmentRef& segment) {
  // memcmp: the arrays' own comparison goes byte by byte, and this is asked for every segment.
  const auto differs = [](const auto& a, const auto& b) {
    return std::memcmp(a.bytes.data(), b.bytes.data(), sizeof a.bytes) != 0;
  };
  if (!known_ || differs(placement_, segment.placement) || differs(ns_, segment.key.ns)) {
    known_ = true;
    ns_ = segment.key.ns;
    placement_ = segment.placement;
    owners_ = cluster::Owners(view_, ns_, placement_, copies_);
  }
  return owners_;
}

uint32_t LeaseMs(Duration lease) {
  const auto ms = std::chrono::ceil<milliseconds>(lease).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(ms, 0, wire::kMaxLeaseMs));
}

MissReason MissReasonOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kDeadline:
      return MissReason::kDeadline;
    case StatusCode::kBusy:
      return MissReason::kBusy;
    case StatusCode::kCorrupt:
      return MissReason::kCorrupt;
    default:
      return MissReason::kLostNode;
  }
}

MissReason MoreTelling(MissReason a, MissReason b) {
  return std::ranges::find(kByWeight, a) > std::ranges::find(kByWeight, b) ? a : b;
}

MissReason MissReasonAt(const cluster::Peer& peer, MissReason reason) {
  const bool forgot = reason == MissReason::kNeverStored && peer.RestartedWithin(kRestartMatters);
  return forgot ? MissReason::kLostNode : reason;
}

}  // namespace ember
