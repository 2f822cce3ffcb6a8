#include "client/cli/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace ember::cli {
namespace {

constexpr int kExecFailed = 127;

// Between fork and exec: async-signal-safe calls only.
[[noreturn]] void BecomeChild(pid_t parent, char* const* arguments, bool quiet) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(kExecFailed);  // it died before the call above
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (quiet) {
    const int nothing = ::open("/dev/null", O_RDWR);
    for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, fd);
  }
  ::execv(arguments[0], arguments);
  ::_exit(kExecFailed);
}

std::string HowItEnded(int status) {
  if (WIFEXITED(status)) return "exit code " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return "signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
}

}  // namespace

Result<ChildProcess> ChildProcess::Start(std::vector<std::string> command, bool quiet) {
  EMBER_CHECK(!command.empty(), "a command has a program");
  if (::access(command[0].c_str(), X_OK) != 0) {
    return NotFoundError(command[0] + ": " + std::strerror(errno));
  }
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return UnavailableError(std::string("fork: ") + std::strerror(errno));
  if (pid == 0) BecomeChild(parent, arguments.data(), quiet);
  return ChildProcess(command[0].substr(command[0].rfind('/') + 1), pid);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : name_(std::move(other.name_)),
      pid_(std::exchange(other.pid_, 0)),
      ended_(std::move(other.ended_)) {}

ChildProcess::~ChildProcess() {
  if (pid_ != 0) Stop(Duration::zero());
}

std::optional<std::string> ChildProcess::Ended() {
  int status = 0;
  if (!ended_ && ::waitpid(pid_, &status, WNOHANG) == pid_) ended_ = HowItEnded(status);
  return ended_;
}

std::string ChildProcess::Stop(Duration grace) {
  constexpr int kPollMs = 10;
  const TimePoint deadline = std::chrono::steady_clock::now() + grace;
  if (!Ended()) ::kill(pid_, grace == Duration::zero() ? SIGKILL : SIGTERM);
  while (!Ended() && std::chrono::steady_clock::now() < deadline) ::poll(nullptr, 0, kPollMs);
  if (!Ended()) {
    ::kill(pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    ended_ = HowItEnded(status);
  }
  return *ended_;
}

}  // namespace ember::cli
