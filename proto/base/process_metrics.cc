#include "proto/base/process_metrics.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

namespace ember {
namespace {

// Of /proc/self/stat, numbered from 1 as in proc(5).
constexpr size_t kUserTicks = 14, kSystemTicks = 15, kStartTicks = 22, kVirtualBytes = 23,
                 kResidentPages = 24;
using StatFields = std::array<double, kResidentPages + 1>;

std::optional<StatFields> ReadStat() {
  std::ifstream file("/proc/self/stat");
  std::string text(std::istreambuf_iterator<char>(file), {});
  // The second field is the program's name in brackets, in which anything may stand.
  const size_t name_end = text.rfind(')');
  if (name_end == text.npos) return std::nullopt;
  std::istringstream rest(text.substr(name_end + 1));
  std::string state;
  rest >> state;
  StatFields fields{};
  for (size_t i = 4; i < fields.size(); ++i) rest >> fields[i];
  if (!rest) return std::nullopt;
  return fields;
}

double OpenDescriptors() {
  // Linux 6.2 and later say it there; to count thousands takes milliseconds.
  struct stat folder {};
  if (stat("/proc/self/fd", &folder) == 0 && folder.st_size > 0) {
    return static_cast<double>(folder.st_size);
  }
  std::error_code ec;
  const std::filesystem::directory_iterator files("/proc/self/fd", ec);
  return ec ? 0 : static_cast<double>(std::distance(begin(files), end(files)));
}

// By the wall clock; that the machine's start is known by whole seconds only would make it move.
double StartedAt(double start_ticks) {
  static const double at = [&] {
    timespec since_boot{}, wall{};
    clock_gettime(CLOCK_BOOTTIME, &since_boot);
    clock_gettime(CLOCK_REALTIME, &wall);
    const auto seconds = [](const timespec& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
    };
    return seconds(wall) - seconds(since_boot) +
           start_ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  }();
  return at;
}

void Append(const char* name, const char* type, const char* help, double value, std::string* out) {
  *out += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n{0} {3}\n", name, type, help, value);
}

}  // namespace

std::string ProcessMetricsText() {
  std::string out =
      "# HELP ember_build_info Which version this is\n# TYPE ember_build_info gauge\n"
      "ember_build_info{version=\"" EMBER_VERSION "\"} 1\n";
  Append("process_open_fds", "gauge", "Open descriptors", OpenDescriptors(), &out);
  if (rlimit limit{}; getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    Append("process_max_fds", "gauge", "Descriptors that it may have",
           static_cast<double>(limit.rlim_cur), &out);
  }
  const std::optional<StatFields> stat = ReadStat();
  if (!stat) return out;
  const StatFields& f = *stat;
  Append("process_cpu_seconds_total", "counter", "CPU time, user and system",
         (f[kUserTicks] + f[kSystemTicks]) / static_cast<double>(sysconf(_SC_CLK_TCK)), &out);
  Append("process_start_time_seconds", "gauge", "Its start, in seconds since 1970",
         StartedAt(f[kStartTicks]), &out);
  Append("process_resident_memory_bytes", "gauge", "Memory in use",
         f[kResidentPages] * static_cast<double>(sysconf(_SC_PAGESIZE)), &out);
  Append("process_virtual_memory_bytes", "gauge", "Address space", f[kVirtualBytes], &out);
  return out;
}

}  // namespace ember
