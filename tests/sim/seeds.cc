#include "tests/sim/seeds.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ember::sim {
namespace {

// What a signal handler may write.
char replay_line[512];

void WriteReplayLine() { (void)!::write(STDERR_FILENO, replay_line, std::strlen(replay_line)); }

void OnSignal(int signal) {
  WriteReplayLine();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Unless somebody is there already: a sanitizer.
void Watch(int signal) {
  struct sigaction before {};
  sigaction(signal, nullptr, &before);
  if (before.sa_handler == SIG_DFL) std::signal(signal, OnSignal);
}

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

void Name(uint64_t seed) {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  std::snprintf(replay_line, sizeof replay_line,
                "replay: EMBER_SIM_SEED=%llu %s --gtest_filter=%s.%s\n",
                static_cast<unsigned long long>(seed), program_invocation_name,
                test->test_suite_name(), test->name());
}

}  // namespace

bool Replaying() { return std::getenv("EMBER_SIM_SEED") != nullptr; }

void ForEachSeed(uint64_t count, const std::function<void(uint64_t seed)>& run) {
  Watch(SIGABRT);
  Watch(SIGSEGV);
  if (const uint64_t only = FromEnvironment("EMBER_SIM_SEED", 0); only != 0) {
    Name(only);
    return run(only);
  }
  const uint64_t first = FromEnvironment("EMBER_SIM_FIRST", 1);
  count *= FromEnvironment("EMBER_SIM_SEEDS", 1);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Name(seed);
    run(seed);
    if (!testing::Test::HasFailure()) continue;
    WriteReplayLine();
    return;
  }
}

}  // namespace ember::sim
