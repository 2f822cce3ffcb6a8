// Text about replicas that others write: an engine's /metrics and /v1/models, a fleet file, a
// replica as JSON.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "router/fleet/engine_metrics.h"
#include "router/fleet/engine_models.h"
#include "router/fleet/fleet_list.h"
#include "router/front/admin_request.h"

namespace ember::router {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

void CheckConfig(const ReplicaConfig& config) {
  Check(!config.id.empty() && config.id.size() <= 64 && config.http.port != 0);
  Check(config.ranks <= 64 && config.weight > 0 && config.weight <= 100);
  for (const std::string& model : config.models) Check(!model.empty() && model.size() <= 256);
  for (const char c : config.key + config.host) {
    Check(static_cast<unsigned char>(c) >= ' ');
  }
}

void CheckAll(std::string_view text) {
  const auto ranks = ReadEngineMetrics(text);
  Check(ranks.size() <= 256);
  for (const auto& [rank, load] : ranks) Check(load.kv_usage >= 0 && load.kv_usage <= 1);
  if (const auto list = ReadEngineModels(text)) {
    Check(!list->models.empty() && list->models.size() <= 1024);
    for (const ServedModel& model : list->models) {
      Check(!model.name.empty() && model.name.size() <= 256 && model.base != model.name);
    }
  }
  if (const auto list = ParseFleetList(text); list.ok()) {
    for (const ReplicaConfig& config : *list) CheckConfig(config);
  }
  if (const auto replica = ReadReplicaJson(text); replica.ok()) CheckConfig(*replica);
}

}  // namespace
}  // namespace ember::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ember::router::CheckAll({reinterpret_cast<const char*>(data), size});
  return 0;
}
