// Files where the real disk says no, on both real back ends.

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>

#include "tests/unit/io/file_fixture.h"

namespace ember::io {
namespace {

class DiskTest : public FileTest {};

// The most that this process may write into a file, until it dies.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    EMBER_CHECK(::setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  sighandler_t handler_;
};

TEST_P(DiskTest, AFullDeviceIsNoSpace) {
  RunTask([&]() -> Task<void> {
    const FilePtr file = Must(files().Open("/dev/full", {.write = true}));
    Status written;
    co_await WriteAt(*file, 0, Pattern(100'000), &written);
    EXPECT_EQ(written.code(), StatusCode::kNoSpace);
    EXPECT_EQ(written.message(), "write /dev/full: No space left on device");
  });
}

TEST_P(DiskTest, TheFileSizeLimitIsNoSpaceAndWritingGoesOnWhenItIsLifted) {
  RunTask([&]() -> Task<void> {
    const FilePtr file = Open("limited");
    const Bytes bytes = Pattern(3 << 20);
    Status written;
    {
      const FileSizeLimit limit(1 << 20);
      co_await WriteAt(*file, 0, bytes, &written);
      EXPECT_EQ(written.code(), StatusCode::kNoSpace) << written.ToString();
      EXPECT_EQ(file->Truncate(2 << 20).code(), StatusCode::kNoSpace);
      EXPECT_EQ(file->Allocate(2 << 20).code(), StatusCode::kNoSpace);
    }
    EXPECT_EQ(*file->Size(), 1u << 20);
    co_await WriteAt(*file, 0, bytes, &written);
    EXPECT_TRUE(written.ok()) << written.ToString();
    EXPECT_EQ(co_await Content(*file), bytes);
  });
}

// The kernel gives EIO for a page of a process that isn't mapped.
TEST_P(DiskTest, AnInputOutputErrorIsUnavailable) {
  RunTask([&]() -> Task<void> {
    const FilePtr file = Must(files().Open("/proc/self/mem", {}));
    Bytes buffer(4096);
    const Status read = (co_await file->ReadAt(0, buffer)).status();
    EXPECT_EQ(read.code(), StatusCode::kUnavailable);
    EXPECT_EQ(read.message(), "read /proc/self/mem: Input/output error");
  });
}

TEST_P(DiskTest, OpenFallsBackWhereDirectInputOutputIsRefused) {
  RunTask([&]() -> Task<void> {
    const FilePtr file = Must(files().Open("/proc/self/status", {.direct = true}));
    EXPECT_FALSE(file->direct());
    Bytes buffer(100);
    EXPECT_EQ(*co_await file->ReadAt(3, MutableByteSpan(buffer).first(5)), 5u);
  });
}

TEST_P(DiskTest, OutOfDescriptorsIsBusy) {
  const FilePtr file = Open("first");
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit none = before;
  none.rlim_cur = 0;
  ::setrlimit(RLIMIT_NOFILE, &none);
  const Status status = files().Open(Path("second"), kCreate).status();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(status.code(), StatusCode::kBusy) << status.ToString();
}

EMBER_EVERY_LOOP(DiskTest);

}  // namespace
}  // namespace ember::io
