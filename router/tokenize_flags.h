// TokenizeFlags: the command line's part on how prompts' tokens are learnt.
#pragma once

#include <string>
#include <vector>

#include "router/service.h"

namespace CLI {
class App;
}

namespace ember::router {

struct TokenizeFlags {
  std::vector<std::string> tokenizers;
  int timeout_ms = 250;
  size_t min_body = 1024;
  size_t cache_mib = 128;
  int parity_interval_s = 60;
  bool no_text = false;

  void Declare(CLI::App& app);
  // kInvalid: one line that says what is wrong.
  Status Interpret(ServiceOptions* out) const;
};

}  // namespace ember::router
