// What an engine's own /v1/models says: which models it serves, adapters among them, and whether it
// minds being asked for others. A pure function of outside text, bounded; any thread.
#pragma once

#include <optional>
#include <string_view>

#include "router/fleet/model_directory.h"

namespace ember::router {

// Nothing: the text lists no models. Names that can't be models' (empty, over 256 bytes) and all
// beyond 1024 are passed over.
std::optional<ModelList> ReadEngineModels(std::string_view text);

}  // namespace ember::router
