#include "tests/crash/store_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "proto/base/check.h"
#include "tests/unit/support/eventually.h"
#include "tests/unit/support/loopback.h"

namespace ember::testing {
namespace {

std::string ReadFrom(const std::string& path, uint64_t begin) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(begin));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string HttpGet(const std::string& host, uint16_t port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return "";
  const timeval patience{.tv_sec = 20, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  std::string reply;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    const std::string request =
        "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n";
    if (send(fd, request.data(), request.size(), MSG_NOSIGNAL) ==
        static_cast<ssize_t>(request.size())) {
      char buffer[16 << 10];
      for (ssize_t n; (n = recv(fd, buffer, sizeof buffer, 0)) > 0;) reply.append(buffer, n);
    }
  }
  close(fd);
  return reply;
}

}  // namespace

StoreProcess::StoreProcess(std::string program, std::vector<std::string> flags, std::string log,
                           int slot)
    : program_(std::move(program)),
      flags_(std::move(flags)),
      log_(std::move(log)),
      host_(OwnLoopbackAddress(slot)) {}

StoreProcess::~StoreProcess() { Kill(); }

void StoreProcess::Start() {
  EMBER_CHECK(!running(), "one process at a time");
  std::vector<std::string> arguments = {program_, "--listen=" + data().ToString(),
                                        "--grpc=" + grpc_address(),
                                        "--admin=" + host_ + ":" + std::to_string(kAdminPort)};
  arguments.insert(arguments.end(), flags_.begin(), flags_.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const int log = open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  EMBER_CHECK(log >= 0, "the log can be written");
  log_begin_ = static_cast<uint64_t>(lseek(log, 0, SEEK_END));
  const pid_t parent = getpid();
  pid_ = fork();
  EMBER_CHECK(pid_ >= 0, "a process can be started");
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    dup2(log, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(log);
}

bool StoreProcess::HasEnded() {
  if (pid_ == 0) return true;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  end_ = status;
  pid_ = 0;
  return true;
}

bool StoreProcess::WaitUntilReady(std::chrono::milliseconds patience) {
  bool ready = false;
  (void)Eventually(
      [&] {
        const std::string log = LogSinceStart();
        ready = log.starts_with("ready ") || log.find("\nready ") != std::string::npos;
        return ready || HasEnded();
      },
      patience);
  return ready;
}

void StoreProcess::Signal(int signal) {
  if (running()) kill(pid_, signal);
}

std::optional<int> StoreProcess::WaitForEnd(std::chrono::milliseconds patience) {
  if (!Eventually([&] { return HasEnded(); }, patience)) return std::nullopt;
  return end_;
}

void StoreProcess::Kill() {
  Signal(SIGKILL);
  (void)WaitForEnd();
}

bool StoreProcess::Stop() {
  if (!running()) return false;
  Signal(SIGTERM);
  const std::optional<int> end = WaitForEnd();
  return end && WIFEXITED(*end) && WEXITSTATUS(*end) == 0;
}

std::optional<double> StoreProcess::Metric(const std::string& name,
                                           const std::string& labels) const {
  const std::string page = HttpGet(host_, kAdminPort, "/metrics");
  if (page.find(" 200 ") == std::string::npos) return std::nullopt;
  std::istringstream lines(page);
  double sum = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name) || line.size() <= name.size()) continue;
    if (line[name.size()] != ' ' && line[name.size()] != '{') continue;
    if (line.find(labels) == std::string::npos) continue;
    sum += std::atof(line.substr(line.rfind(' ')).c_str());
  }
  return sum;
}

std::string StoreProcess::LogSinceStart() const { return ReadFrom(log_, log_begin_); }

std::string StoreProcess::LogTail(size_t lines) const {
  const std::string log = ReadFrom(log_, 0);
  size_t at = log.size();
  for (size_t ends = 0; at > 0; --at) {
    if (log[at - 1] == '\n' && ends++ == lines) break;
  }
  return log.substr(at);
}

uint64_t StoreProcess::OpenDescriptors() const {
  const std::filesystem::directory_iterator all("/proc/" + std::to_string(pid_) + "/fd");
  return static_cast<uint64_t>(std::distance(begin(all), end(all)));
}

uint64_t StoreProcess::ResidentBytes() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/statm");
  uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace ember::testing
