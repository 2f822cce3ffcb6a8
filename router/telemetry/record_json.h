// Records as JSON objects, for /admin/explain and the page. Pure functions, any
// thread.
#pragma once

#include <string>

#include "router/telemetry/request_record.h"

namespace ember::router {

// All that is known, every candidate with the parts of its cost.
std::string RecordJson(const RequestRecord& record);
// What a list shows: no attempts, no candidates.
std::string BriefRecordJson(const RequestRecord& record);

}  // namespace ember::router
