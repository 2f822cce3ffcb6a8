#include "proto/base/status.h"

#include <array>

namespace ember {
namespace {
constexpr std::array<std::string_view, 11> kNames = {
    "ok",       "not_found", "busy",     "unavailable", "deadline", "corrupt",
    "no_space", "invalid",   "mismatch", "cancelled",   "internal"};
}  // namespace

std::string_view StatusCodeName(StatusCode code) { return kNames.at(static_cast<size_t>(code)); }

StatusCode StatusCodeFromWire(uint32_t value) {
  return value < kNames.size() ? static_cast<StatusCode>(value) : StatusCode::kInternal;
}

std::string Status::ToString() const {
  std::string out(StatusCodeName(code()));
  if (!message().empty()) out.append(": ").append(message());
  return out;
}

Status Status::WithContext(std::string_view context) const {
  if (ok()) return *this;
  return {code(), std::string(context).append(": ").append(message())};
}

}  // namespace ember
