// Fleets of several models.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/router/router_fixture.h"

namespace ember::router {

// Each replica's `model=`.
inline RouterFixture::Adjust Declaring(std::vector<std::vector<std::string>> models) {
  return [models = std::move(models)](ServiceOptions& o) {
    for (size_t i = 0; i < models.size(); ++i) o.replicas[i].models = models[i];
  };
}

inline void AskingForModels(ServiceOptions& o) { o.models_interval = milliseconds(10); }

// Until each replica is known to serve just these.
inline bool AwaitModels(const RouterFixture& router,
                        const std::vector<std::vector<std::string>>& models) {
  return http::Eventually([&] {
    const StatusReport status = router.Status();
    return std::equal(models.begin(), models.end(), status.replicas.begin(), status.replicas.end(),
                      [](const auto& names, const auto& r) { return names == *r.models; });
  });
}

inline std::string Body(const std::string& model, const std::string& more = "") {
  return "{\"messages\":[]" + more + ",\"model\":\"" + model + "\"}";
}

}  // namespace ember::router
