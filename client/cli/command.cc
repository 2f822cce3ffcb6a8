#include "client/cli/command.h"

#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>

namespace ember::cli {
namespace {

constexpr double kMaxTimeoutSeconds = 3600;

GrpcConnect& GrpcConnector() {
  static GrpcConnect connect;
  return connect;
}

}  // namespace

int Complain(const Status& status) {
  std::fprintf(stderr, "ember: %s\n", std::string(status.message()).c_str());
  return status.code() == StatusCode::kNotFound ? kMissing : kFailed;
}

std::string EnvironmentOr(const char* variable, const char* fallback) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : fallback;
}

Result<std::vector<io::Endpoint>> ParseEndpoints(const std::string& text) {
  std::vector<io::Endpoint> endpoints;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    Result<io::Endpoint> endpoint = io::Endpoint::Parse(text.substr(begin, comma - begin));
    if (!endpoint.ok()) return endpoint.status();
    if (endpoint->port == 0) {
      return InvalidError("address \"" + endpoint->ToString() + "\": port 0 is nobody's");
    }
    endpoints.push_back(*std::move(endpoint));
    begin = comma + 1;
  }
  return endpoints;
}

void SetGrpcConnect(GrpcConnect connect) { GrpcConnector() = std::move(connect); }

void StoreFlags::AddTo(CLI::App* app) {
  app->add_option("--stores", stores,
                  "Data addresses of any store nodes, HOST:PORT,... (or $EMBER_STORES)")
      ->capture_default_str();
  if (GrpcConnector()) {
    app->add_option("--via", via, "Data plane: tcp, or grpc where the data port can't be reached")
        ->check(CLI::IsMember({"tcp", "grpc"}))
        ->capture_default_str();
    app->add_option("--store-grpc", grpc,
                    "With --via grpc: control addresses of all nodes (or $EMBER_STORE_GRPC)")
        ->capture_default_str();
  }
  app->add_option("--copies", copies, "Copies to write, each on another node")
      ->check(Within(1u, kMaxCopies))
      ->capture_default_str();
  app->add_option("--timeout", timeout_seconds, "Seconds that each batch may take")
      ->check(Within(0.001, kMaxTimeoutSeconds))
      ->capture_default_str();
  app->add_option("--io", io, "I/O back end: auto falls back to epoll without io_uring")
      ->check(CLI::IsMember({"auto", "uring", "epoll"}))
      ->capture_default_str();
}

Result<std::unique_ptr<StoreClient>> StoreFlags::Connect(const std::string& name) const {
  if (via == "grpc") {
    Result<std::vector<io::Endpoint>> nodes = ParseEndpoints(grpc);
    if (!nodes.ok()) return nodes.status().WithContext("--store-grpc");
    return GrpcConnector()(*std::move(nodes), name, copies);
  }
  StoreClientOptions options;
  Result<std::vector<io::Endpoint>> seeds = ParseEndpoints(stores);
  if (!seeds.ok()) return seeds.status().WithContext("--stores");
  Result<io::Backend> backend = io::ParseBackend(io);
  if (!backend.ok()) return backend.status();
  options.seeds = *std::move(seeds);
  options.name = name;
  options.backend = *backend;
  options.copies = copies;
  return StoreClient::Create(std::move(options));
}

Duration StoreFlags::timeout() const {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(timeout_seconds));
}

Result<std::string> ProgramFolder() {
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) return NotFoundError("the folder of this program is not known");
  const std::string program(path, static_cast<size_t>(length));
  return program.substr(0, program.rfind('/'));
}

}  // namespace ember::cli
