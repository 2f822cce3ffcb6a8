// Which back end MakeLoop chooses, also where the system refuses io_uring.

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "tests/unit/io/loop_fixture.h"

namespace ember::io {
namespace {

// What the default profiles of container runtimes do to io_uring's system calls.
bool Deny(uint32_t system_call) {
  std::array<sock_filter, 4> program = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, system_call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  sock_fprog filter{program.size(), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// In a child process; each number is what went wrong.
int WithDenied(uint32_t system_call, std::string_view expected) {
  if (!Deny(system_call)) return 1;
  std::string reason;
  Result<std::unique_ptr<Loop>> loop = MakeLoop(Backend::kAuto, &reason);
  if (!loop.ok()) return 2;
  if ((*loop)->backend() != "epoll") return 3;
  if (reason != expected) return 4;
  const Status refused = MakeLoop(Backend::kUring).status();
  if (refused.code() != StatusCode::kUnavailable) return 5;
  if (refused.message() != expected) return 6;
  bool ran = false;
  (*loop)->Post([&] {
    ran = true;
    (*loop)->Stop();
  });
  (*loop)->Run();
  return ran ? 0 : 7;
}

void ExpectFallback(uint32_t system_call, std::string_view expected) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(WithDenied(system_call, expected));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(MakeLoop, FallsBackToEpollWhereUringIsDenied) {
  ExpectFallback(SYS_io_uring_setup, "io_uring_setup: Operation not permitted");
}

// Half of it is as good as none, and must be found out before a loop is running.
TEST(MakeLoop, FallsBackToEpollWhereAPartOfUringIsDenied) {
  if (!MakeLoop(Backend::kUring).ok()) GTEST_SKIP() << "io_uring is refused here";
  ExpectFallback(SYS_io_uring_register, "io_uring_register: Operation not permitted");
  ExpectFallback(SYS_io_uring_enter, "io_uring_enter: Operation not permitted");
}

TEST(MakeLoop, GivesWhatWasAskedFor) {
  std::string reason = "stale";
  EXPECT_EQ(Must(MakeLoop(Backend::kEpoll, &reason))->backend(), "epoll");
  EXPECT_EQ(reason, "");
  Result<std::unique_ptr<Loop>> uring = MakeLoop(Backend::kUring);
  const std::unique_ptr<Loop> automatic = Must(MakeLoop(Backend::kAuto, &reason));
  EXPECT_EQ(automatic->backend(), uring.ok() ? "uring" : "epoll");
  EXPECT_EQ(reason.empty(), uring.ok());
}

TEST(ParseBackend, KnowsThreeNames) {
  EXPECT_EQ(*ParseBackend("auto"), Backend::kAuto);
  EXPECT_EQ(*ParseBackend("uring"), Backend::kUring);
  EXPECT_EQ(*ParseBackend("epoll"), Backend::kEpoll);
  EXPECT_EQ(ParseBackend("kqueue").status().code(), StatusCode::kInvalid);
  EXPECT_EQ(ParseBackend("").status().code(), StatusCode::kInvalid);
}

}  // namespace
}  // namespace ember::io
