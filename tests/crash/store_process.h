// StoreProcess: an ember-store that a test starts, and ends in every way there is.
//
// It listens on a loopback address of the test's own, so that no other program's port can be in its
// way when it comes back on the same one. What it logs goes to a file. Should the test die, the
// kernel kills it. Concurrency: started, signalled and waited for by one thread; the rest by any.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "client/io/stream.h"

namespace ember::testing {

class StoreProcess {
 public:
  static constexpr uint16_t kDataPort = 7101;  // of the first shard; the others follow
  static constexpr uint16_t kGrpcPort = 7201;
  static constexpr uint16_t kAdminPort = 7301;

  // `flags` are those that say neither where it listens nor who it is. `slot` tells apart the nodes
  // of one test that run at the same time.
  StoreProcess(std::string program, std::vector<std::string> flags, std::string log, int slot = 0);
  ~StoreProcess();
  StoreProcess(const StoreProcess&) = delete;
  StoreProcess& operator=(const StoreProcess&) = delete;

  void Start();
  // False when it ended instead, or not in time.
  bool WaitUntilReady(std::chrono::milliseconds patience = std::chrono::seconds(60));
  void Signal(int signal);
  // How it ended, as waitpid says; nothing when it goes on.
  std::optional<int> WaitForEnd(std::chrono::milliseconds patience = std::chrono::seconds(60));
  void Kill();
  // By SIGTERM; true when it ended with exit code 0.
  bool Stop();

  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  const std::string& host() const { return host_; }
  io::Endpoint data() const { return {host_, kDataPort}; }
  std::string grpc_address() const { return host_ + ":" + std::to_string(kGrpcPort); }
  std::vector<std::string>& flags() { return flags_; }

  // The sum of a metric's samples, whatever their labels; those with `labels` in them only, if
  // given. Nothing when the node doesn't answer.
  std::optional<double> Metric(const std::string& name, const std::string& labels = "") const;
  // Of the log since the start that was last; the last lines of it.
  std::string LogSinceStart() const;
  std::string LogTail(size_t lines) const;
  uint64_t OpenDescriptors() const;
  uint64_t ResidentBytes() const;

 private:
  bool HasEnded();

  const std::string program_;
  std::vector<std::string> flags_;
  const std::string log_;
  const std::string host_;
  pid_t pid_ = 0;
  int end_ = 0;  // once it has ended
  uint64_t log_begin_ = 0;
};

}  // namespace ember::testing
