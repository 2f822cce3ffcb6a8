// The contract tests' rows: the two real back ends.
#include "tests/unit/io/loop_factory.h"

namespace ember::io {

std::vector<LoopFactory> LoopFactories() {
  return {
      {.name = "uring", .make = [] { return MakeLoop(Backend::kUring); }, .may_be_refused = true},
      {.name = "epoll", .make = [] { return MakeLoop(Backend::kEpoll); }}};
}

}  // namespace ember::io
