// The policies there are, by name. Any thread; the policies live as long as the process.
#pragma once

#include <span>
#include <string_view>

#include "router/policy/policy.h"

namespace ember::router {

// Null when there is none of that name.
const Policy* FindPolicy(std::string_view name);
std::span<const Policy* const> AllPolicies();
// "round_robin, random, ...": for help and errors.
std::string PolicyNames();

}  // namespace ember::router
