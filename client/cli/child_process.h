// ChildProcess: a program that this one started and answers for.
//
// It gets SIGTERM when this process dies in whatever way, and does not hear the terminal's Ctrl-C
// itself: whoever owns it stops it. Start and use it on the main thread only: the kernel counts the
// death of the starting thread as the parent's. The destructor kills what still runs.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "proto/base/status.h"
#include "proto/base/time.h"

namespace ember::cli {

class ChildProcess {
 public:
  // `command[0]` is the path of the program. Its standard streams are this process's, or nothing
  // when `quiet`. kNotFound when there is no such program.
  static Result<ChildProcess> Start(std::vector<std::string> command, bool quiet = false);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  // "exit code 1", "signal 9 (Killed)"; nullopt while it runs.
  std::optional<std::string> Ended();
  // SIGTERM, and SIGKILL after `grace`. How it ended.
  std::string Stop(Duration grace);

  pid_t pid() const { return pid_; }
  const std::string& name() const { return name_; }  // of the program, without its folder

 private:
  ChildProcess(std::string name, pid_t pid) : name_(std::move(name)), pid_(pid) {}

  std::string name_;
  pid_t pid_;  // 0: moved from
  std::optional<std::string> ended_;
};

}  // namespace ember::cli
