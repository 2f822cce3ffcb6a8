#include "router/telemetry/telemetry.h"

namespace ember::router {

void Telemetry::Finish(RequestRecord record) {
  record.sequence = ++finished_;
  record.ended_at = SteadyClock().Now();
  metrics_.Count(record);
  explain_.Add(std::make_shared<const RequestRecord>(std::move(record)));
}

}  // namespace ember::router
