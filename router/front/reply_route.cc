#include "router/front/reply_route.h"

#include "router/policy/cost_model.h"

namespace ember::router {

std::string_view KnownRoute(std::string_view said) {
  for (const Route r : {Route::kLocal, Route::kRemote, Route::kRecompute}) {
    if (said == RouteName(r)) return RouteName(r);
  }
  return "";
}

std::string_view RouteOfReply(std::optional<uint64_t> cached, const CandidateCost* cost) {
  if (cached && *cached < kMinMatchTokens) return RouteName(Route::kRecompute);
  const uint64_t local = cost == nullptr ? 0 : cost->local_tokens;
  const uint64_t remote = cost == nullptr ? 0 : cost->remote_tokens;
  if (!cached && cost == nullptr) return "";
  // What exceeds the replica's own can only have come from the store it was to load from.
  if (remote > 0 && cached.value_or(local + remote) > local) return RouteName(Route::kRemote);
  return RouteName(cached || local > 0 ? Route::kLocal : Route::kRecompute);
}

}  // namespace ember::router
