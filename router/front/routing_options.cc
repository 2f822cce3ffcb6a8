#include "router/front/routing_options.h"

#include "router/policy/registry.h"
#include "router/tokenize/prompt_api.h"

namespace ember::router {
namespace {

Result<const Policy*> PolicyOf(const http::Request& request, const Policy* default_policy,
                               bool allow_override) {
  const std::string_view name = request.headers.Get("x-ember-policy");
  const auto sticky = request.QueryParam("sticky");
  if (!allow_override && (!name.empty() || sticky)) {
    return InvalidError("x-ember-policy, ?sticky: requests may not choose their policy here");
  }
  if (!name.empty()) {
    if (const Policy* policy = FindPolicy(name)) return policy;
    return InvalidError("x-ember-policy: unknown policy \"" + std::string(name.substr(0, 100)) +
                        "\"; known: " + PolicyNames());
  }
  if (sticky) return FindPolicy(*sticky == "0" ? "random" : "sticky");
  return default_policy;
}

}  // namespace

Result<RoutingOptions> RoutingOptions::Of(const http::Request& request,
                                          const Policy* default_policy, bool allow_override) {
  Result<const Policy*> policy = PolicyOf(request, default_policy, allow_override);
  if (!policy.ok()) return policy.status();
  RoutingOptions options;
  options.policy = *policy;
  options.pin = request.headers.Get("x-ember-pin");
  if (!allow_override && !options.pin.empty()) {
    return InvalidError("x-ember-pin: requests may not choose their replica here");
  }
  options.conversation_id = request.headers.Get("x-conversation-id");
  options.target = WithoutParameter(request.target, "sticky");
  options.use_store = !http::EqualNoCase(request.headers.Get("x-ember-store"), "off");
  options.use_cache = !http::EqualNoCase(request.headers.Get("x-ember-cache"), "off");
  options.has_prompt = HasPrompt(request);
  return options;
}

bool RoutingOptions::HasPrompt(const http::Request& request) {
  return request.method == "POST" && PromptApiOf(request.path).has_value();
}

std::string WithoutParameter(std::string_view target, std::string_view name) {
  const size_t question = target.find('?');
  std::string out(target.substr(0, question));
  if (question == target.npos) return out;
  std::string_view rest = target.substr(question + 1);
  char separator = '?';
  for (bool more = true; more;) {
    const size_t end = rest.find('&');
    more = end != rest.npos;
    const std::string_view field = rest.substr(0, end);
    rest.remove_prefix(more ? end + 1 : rest.size());
    if (field.substr(0, field.find('=')) == name) continue;
    out.push_back(separator);
    out.append(field);
    separator = '&';
  }
  return out;
}

}  // namespace ember::router
