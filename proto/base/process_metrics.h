// What every program's /metrics says of its process, under Prometheus's usual names: memory,
// descriptors, CPU, start; and which version it is. Any thread.
#pragma once

#include <string>

namespace ember {

// A piece of a scrape body. What the system does not tell is left out.
std::string ProcessMetricsText();

}  // namespace ember
