// The fleet's models as OpenAI's API lists them. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "router/fleet/model_directory.h"

namespace ember::router {

// {"object":"list","data":[...]}: each model that some member lists, once, adapters last: many
// clients take the first. As an engine lists it, where one does.
std::string ModelListJson(const ModelDirectory& models);
// One of them; "" when nobody lists it.
std::string ModelJson(const ModelDirectory& models, std::string_view name);

}  // namespace ember::router
