// FleetFlags: the command line's part on replicas: where they come from, how they are watched, who
// may change them.
#pragma once

#include <string>
#include <vector>

#include "router/service.h"

namespace CLI {
class App;
}

namespace ember::router {

struct FleetFlags {
  std::vector<std::string> replicas;
  std::string file;
  std::vector<std::string> dns;
  int dns_interval_ms = 5000;
  int health_interval_ms = 1000;
  int health_timeout_ms = 2000;
  int load_interval_ms = 500;
  int models_interval_ms = 10000;
  std::string health_path = "/health";
  std::string admin = "off";
  std::string admin_token_file;
  bool admin_without_token = false;
  size_t max_waiting = 1024;
  int queue_timeout_ms = 30000;
  bool trust_tenant_header = false;

  void Declare(CLI::App& app);
  // kInvalid: one line that says what is wrong. The server's host must be known.
  Status Interpret(ServiceOptions* out) const;
};

// An address to listen on, where port 0 is any free one.
Result<http::Origin> ListenAddress(const char* flag, const std::string& text);

}  // namespace ember::router
