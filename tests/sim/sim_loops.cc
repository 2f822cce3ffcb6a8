// The row of the loop contract tests that this folder adds.
#include "tests/sim/sim_loop.h"
#include "tests/unit/io/loop_factory.h"

namespace ember::io {

std::vector<LoopFactory> LoopFactories() {
  const auto make = []() -> Result<std::unique_ptr<Loop>> {
    static uint64_t seed = 0;
    return std::unique_ptr<Loop>(
        std::make_unique<sim::SimLoop>(std::make_shared<sim::Simulation>(++seed)));
  };
  return {{.name = "sim", .make = make}};
}

}  // namespace ember::io
