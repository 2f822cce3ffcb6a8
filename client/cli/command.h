// Command: what every subcommand of `ember` has in common.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "client/store_client/store_client.h"

namespace ember::cli {

// Exit codes of the program.
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;  // a node, a file or a child process
inline constexpr int kWrongUsage = 2;
inline constexpr int kMissing = 3;  // what was asked for is not (wholly) in the store

// Adds the subcommands; each sets `*exit_code` when it has run.
void AddFileCommands(CLI::App* app, int* exit_code);
void AddBenchCommand(CLI::App* app, int* exit_code);
void AddDiskBenchCommand(CLI::App* bench, int* exit_code);  // below `bench`
void AddStatusCommand(CLI::App* app, int* exit_code);
void AddTopCommand(CLI::App* app, int* exit_code);
void AddWatchCommand(CLI::App* app, int* exit_code);
void AddExplainCommand(CLI::App* app, int* exit_code);
void AddPurgeCommand(CLI::App* app, int* exit_code);
void AddFleetCommand(CLI::App* app, int* exit_code);
void AddUpCommand(CLI::App* app, int* exit_code);

// One line on stderr, "ember: ...". Returns the exit code that fits.
int Complain(const Status& status);

// The environment's value of an option, shown in its help, else its default.
std::string EnvironmentOr(const char* variable, const char* fallback);
inline constexpr char kStoresVariable[] = "EMBER_STORES";
inline constexpr char kStoreGrpcVariable[] = "EMBER_STORE_GRPC";
inline constexpr char kRouterGrpcVariable[] = "EMBER_ROUTER_GRPC";

// "A,B" as endpoints; kInvalid names the wrong one.
Result<std::vector<io::Endpoint>> ParseEndpoints(const std::string& text);

// Makes the client of `--via grpc`; without one there is no such flag. Set by the program, so that
// this library does without gRPC.
using GrpcConnect = std::function<Result<std::unique_ptr<StoreClient>>(
    std::vector<io::Endpoint> nodes, const std::string& name, uint32_t copies)>;
void SetGrpcConnect(GrpcConnect connect);

// The flags of every subcommand that moves data, and the client they ask for.
struct StoreFlags {
  std::string stores = EnvironmentOr(kStoresVariable, "127.0.0.1:7101");
  std::string grpc = EnvironmentOr(kStoreGrpcVariable, "127.0.0.1:7201");
  std::string via = "tcp";
  std::string io = "auto";
  double timeout_seconds = 10;
  uint32_t copies = 2;

  void AddTo(CLI::App* app);
  Result<std::unique_ptr<StoreClient>> Connect(const std::string& name) const;
  Duration timeout() const;
};

// Bounds of a number, left out of the help's type column.
template <typename T>
CLI::Validator Within(T low, T high) {
  return CLI::Range(low, high).description("");
}

// The folder this program lies in, where its sister programs are. kNotFound with the reason.
Result<std::string> ProgramFolder();

}  // namespace ember::cli
