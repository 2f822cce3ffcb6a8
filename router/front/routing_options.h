// RoutingOptions: what one request asks of the router itself, and what of the request goes on.
// A plain value made by a pure function; any thread.
//
//   x-ember-policy: NAME    this policy instead of the default
//   ?sticky=0, ?sticky=1    random, or sticky (the header wins); the parameter is not forwarded
//   x-ember-pin: REPLICA    this replica and no other
//   x-conversation-id: ID   what sticky goes by
//   x-ember-store: off      nothing is presumed to come from the store (the agent obeys it too)
//   x-ember-cache: off      nor from the replica's own memory
#pragma once

#include <string>
#include <string_view>

#include "client/http/request.h"
#include "proto/base/status.h"
#include "router/policy/policy.h"

namespace ember::router {

struct RoutingOptions {
  const Policy* policy = nullptr;
  std::string pin;              // empty: free choice
  std::string conversation_id;  // empty: none
  std::string target;           // to forward: the request's own without our query parameter
  bool use_store = true;
  bool use_cache = true;
  bool has_prompt = false;  // a POST whose body is a prompt

  // kInvalid: an unknown policy, with the known ones in the message, or any, or a pin, when
  // `allow_override` is false.
  static Result<RoutingOptions> Of(const http::Request& request, const Policy* default_policy,
                                   bool allow_override);
  // See has_prompt.
  static bool HasPrompt(const http::Request& request);
};

// The target without every query parameter called `name`, all else byte for byte.
std::string WithoutParameter(std::string_view target, std::string_view name);

}  // namespace ember::router
