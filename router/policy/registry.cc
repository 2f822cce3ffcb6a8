#include "router/policy/registry.h"

#include <array>
#include <string>

#include "router/policy/cache_aware.h"
#include "router/policy/least_loaded.h"
#include "router/policy/power_of_two.h"
#include "router/policy/prefix.h"
#include "router/policy/random.h"
#include "router/policy/round_robin.h"
#include "router/policy/sticky.h"

namespace ember::router {

std::span<const Policy* const> AllPolicies() {
  static const RoundRobinPolicy round_robin;
  static const RandomPolicy random;
  static const LeastLoadedPolicy least_loaded;
  static const PowerOfTwoPolicy power_of_two;
  static const StickyPolicy sticky;
  static const PrefixPolicy prefix;
  static const CacheAwarePolicy cache_aware;
  static const std::array<const Policy*, 7> all = {
      &round_robin, &random, &least_loaded, &power_of_two, &sticky, &prefix, &cache_aware};
  return all;
}

const Policy* FindPolicy(std::string_view name) {
  for (const Policy* policy : AllPolicies()) {
    if (policy->name() == name) return policy;
  }
  return nullptr;
}

std::string PolicyNames() {
  std::string names;
  for (const Policy* policy : AllPolicies()) {
    if (!names.empty()) names += ", ";
    names += policy->name();
  }
  return names;
}

}  // namespace ember::router
