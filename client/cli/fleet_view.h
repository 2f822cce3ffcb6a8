// What `ember fleet` shows of a router's replicas. A pure function, any thread.
#pragma once

#include <string>
#include <string_view>

#include "proto/base/status.h"

namespace ember::cli {

// A table from the JSON of GET /admin/replicas, and what is wrong with a source. kInvalid: it is
// none.
Result<std::string> FleetText(std::string_view json);

}  // namespace ember::cli
