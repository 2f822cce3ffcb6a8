#include "proto/model/miss_reason.h"

#include <array>
#include <cstddef>

namespace ember {
namespace {
constexpr std::array<std::string_view, kMissReasonCount> kNames = {
    "none",       "never_stored", "evicted", "lost_node", "deadline", "layout_differs",
    "other_salt", "purged",       "corrupt", "busy",      "expired"};
}  // namespace

std::string_view MissReasonName(MissReason reason) {
  return kNames.at(static_cast<size_t>(reason));
}

MissReason MissReasonFromWire(uint8_t value) {
  return value < kMissReasonCount ? static_cast<MissReason>(value) : MissReason::kNeverStored;
}

}  // namespace ember
