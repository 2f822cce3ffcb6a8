// LoopFactory: a row of the contract tests: one kind of loop to run them on.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "client/io/loop.h"

namespace ember::io {

struct LoopFactory {
  std::string name;  // of the row, as GoogleTest takes it
  std::function<Result<std::unique_ptr<Loop>>()> make;
  // The system may refuse it; the row's tests are skipped then.
  bool may_be_refused = false;
};

inline void PrintTo(const LoopFactory& factory, std::ostream* out) { *out << factory.name; }

// What this test program runs them on: defined once in each program that links the contract tests.
std::vector<LoopFactory> LoopFactories();

}  // namespace ember::io
