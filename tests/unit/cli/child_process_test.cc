#include "client/cli/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/support/eventually.h"

namespace ember::cli {
namespace {

Result<ChildProcess> Shell(const std::string& script) {
  return ChildProcess::Start({"/bin/sh", "-c", script}, /*quiet=*/true);
}

TEST(ChildProcess, TellsHowItEnded) {
  auto child = Shell("exit 7");
  ASSERT_TRUE(child.ok());
  EXPECT_TRUE(Eventually([&] { return child->Ended().has_value(); }));
  EXPECT_EQ(*child->Ended(), "exit code 7");
  EXPECT_EQ(child->Stop(seconds(1)), "exit code 7");
}

TEST(ChildProcess, StopsPolitelyThenNot) {
  // Each makes a file when its trap is set.
  const std::string mark = ::testing::TempDir() + "/ember-trap-" + std::to_string(::getpid());
  const auto trapped = [&](const std::string& trap, const std::string& name) {
    return Shell("trap '" + trap + "' TERM; : > " + mark + name + "; while :; do sleep 0.02; done");
  };
  auto polite = trapped("exit 3", "polite");
  auto deaf = trapped("", "deaf");
  ASSERT_TRUE(polite.ok() && deaf.ok());
  for (const char* name : {"polite", "deaf"}) {
    EXPECT_TRUE(Eventually([&] { return ::access((mark + name).c_str(), F_OK) == 0; }));
    ::unlink((mark + name).c_str());
  }
  EXPECT_FALSE(polite->Ended().has_value());
  EXPECT_EQ(deaf->Stop(milliseconds(200)).substr(0, 8), "signal 9");
  EXPECT_EQ(polite->Stop(seconds(5)), "exit code 3");
}

TEST(ChildProcess, NamesAProgramThatIsNotThere) {
  const auto child = ChildProcess::Start({"/nowhere/ember-store"});
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.status().code(), StatusCode::kNotFound);
  EXPECT_NE(std::string(child.status().message()).find("/nowhere/ember-store"), std::string::npos);
}

TEST(ChildProcess, DiesWithItsOwner) {
  pid_t pid = 0;
  {
    auto child = Shell("exec sleep 1000");
    ASSERT_TRUE(child.ok());
    pid = child->pid();
  }
  EXPECT_EQ(::kill(pid, 0), -1);  // gone and waited for
}

// Even when the owner has no chance to say anything: KILLed.
TEST(ChildProcess, DiesWhenItsParentIsKilled) {
  int pids[2];
  ASSERT_EQ(::pipe(pids), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    auto child = Shell("exec sleep 1000");
    const pid_t pid = child.ok() ? child->pid() : 0;
    if (::write(pids[1], &pid, sizeof pid) != sizeof pid) ::_exit(1);
    for (;;) ::pause();
  }
  pid_t grandchild = 0;
  ASSERT_EQ(::read(pids[0], &grandchild, sizeof grandchild),
            static_cast<ssize_t>(sizeof grandchild));
  ASSERT_GT(grandchild, 0);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  // An orphan that has died is reaped by init, or stays a zombie where there is none.
  EXPECT_TRUE(Eventually([&] {
    if (::kill(grandchild, 0) != 0) return true;
    const std::string path = "/proc/" + std::to_string(grandchild) + "/stat";
    FILE* file = std::fopen(path.c_str(), "r");
    if (file == nullptr) return true;
    char state = 0;
    const int read = std::fscanf(file, "%*d %*s %c", &state);
    std::fclose(file);
    return read == 1 && state == 'Z';
  }));
  ::close(pids[0]);
  ::close(pids[1]);
}

}  // namespace
}  // namespace ember::cli
