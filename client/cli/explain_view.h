// ExplainView: what `ember explain` shows: the router's JSON about a decision as a table of every
// candidate. Pure functions, any thread.
#pragma once

#include <string>
#include <string_view>

#include "proto/base/status.h"

namespace ember::cli {

// `json` as GET /admin/explain answers: each request with the table of its attempts. kNotFound when
// there is none in it; kCorrupt: not that shape.
Result<std::string> ExplainedText(std::string_view json);
// `json` as POST /admin/explain answers: where the request would go.
Result<std::string> ExplainedRequestText(std::string_view json);

}  // namespace ember::cli
