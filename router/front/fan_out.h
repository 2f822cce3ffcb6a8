// FanOutCaps: how much one request may ask an engine to make of it. Engines allow thousands of
// answers to one prompt, which is one cheap request's way to fill a replica.
// A plain value; the check is pure, linear in the body and safe on any bytes; any thread.
#pragma once

#include <cstddef>
#include <string_view>

#include "proto/base/status.h"

namespace ember::router {

struct FanOutCaps {
  size_t choices = 128;  // `n` and `best_of`; OpenAI's own bound
  size_t stops = 128;    // entries of `stop`, `stop_sequences`

  // kInvalid: the body's object asks for more. Other bodies are not judged here.
  Status Check(std::string_view body) const;
};

}  // namespace ember::router
