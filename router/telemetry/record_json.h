// Records and decisions as JSON objects, for /admin/explain and the page. Pure functions, any
// thread.
#pragma once

#include <string>

#include "router/telemetry/request_record.h"

namespace ember::router {

// Every candidate with the parts of its cost.
std::string DecisionJson(const RoutingDecision& decision);
// All that is known.
std::string RecordJson(const RequestRecord& record);
// What a list shows: no attempts, no candidates.
std::string BriefRecordJson(const RequestRecord& record);

}  // namespace ember::router
