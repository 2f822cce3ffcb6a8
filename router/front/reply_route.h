// Which way a reply took: what its agent said, else what the engine's count of cached tokens shows,
// else what was predicted. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "proto/model/routing.h"

namespace ember::router {

// "local", "remote" or "recompute" when `said` is one of them, else "": nobody outside may invent a
// route, which is a metric's label. Of static life.
std::string_view KnownRoute(std::string_view said);

// `cached`: of the prompt, as the engine counted; nothing: it did not. `cost`: of the chosen
// replica; null: nothing was predicted. "" when nothing tells.
std::string_view RouteOfReply(std::optional<uint64_t> cached, const CandidateCost* cost);

}  // namespace ember::router
