#include "client/io/posix_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <vector>

#include "client/io/loop_base.h"
#include "client/io/posix_file_system.h"

namespace ember::io {
namespace {

// Of one read: a submission entry's length has 32 bits.
constexpr size_t kMaxReadBytes = size_t{1} << 30;

std::vector<iovec> ToVectors(std::span<const ByteSpan> parts) {
  std::vector<iovec> vectors;
  vectors.reserve(parts.size());
  for (ByteSpan part : parts) {
    if (!part.empty()) vectors.push_back({const_cast<std::byte*>(part.data()), part.size()});
  }
  return vectors;
}

// Takes `written` bytes from the front.
std::span<iovec> Advance(std::span<iovec> vectors, size_t written) {
  while (written > 0) {
    iovec& first = vectors.front();
    if (written < first.iov_len) {
      first = {static_cast<std::byte*>(first.iov_base) + written, first.iov_len - written};
      break;
    }
    written -= first.iov_len;
    vectors = vectors.subspan(1);
  }
  return vectors;
}

bool IsTransient(ssize_t rc) { return rc == -EINTR || rc == -EAGAIN; }

}  // namespace

class PosixFile::PendingOperation {
 public:
  explicit PendingOperation(PosixFile* file) : file_(file) { ++file_->pending_; }
  PendingOperation(const PendingOperation&) = delete;
  PendingOperation& operator=(const PendingOperation&) = delete;
  ~PendingOperation() { --file_->pending_; }

 private:
  PosixFile* const file_;
};

PosixFile::~PosixFile() { EMBER_CHECK(pending_ == 0, "a file outlives its pending operations"); }

void PosixFile::CheckAligned(uint64_t offset, ByteSpan buffer) const {
  if (!direct_) return;
  const uint64_t bits = offset | buffer.size() | reinterpret_cast<uintptr_t>(buffer.data());
  EMBER_CHECK(bits % kDirectAlignment == 0, "direct I/O needs aligned offset, length and address");
}

Status PosixFile::Failure(std::string_view operation, ssize_t error) const {
  return FileStatus(std::string(operation) + " " + path_, static_cast<int>(-error));
}

Task<Result<size_t>> PosixFile::ReadAt(uint64_t offset, MutableByteSpan buffer) {
  CheckAligned(offset, buffer);
  const PendingOperation pending(this);
  size_t done = 0;
  while (done < buffer.size()) {
    if (loop_->draining()) co_return Failure("read", -ECANCELED);
    const MutableByteSpan rest = buffer.subspan(done);
    const ssize_t rc =
        co_await ReadOnce(offset + done, rest.first(std::min(rest.size(), kMaxReadBytes)));
    if (IsTransient(rc)) continue;
    if (rc < 0) co_return Failure("read", rc);
    done += static_cast<size_t>(rc);
    // A direct read can go on only from an aligned place, and ends at an odd one only at the end.
    if (rc == 0 || (direct_ && done % kDirectAlignment != 0)) break;
  }
  co_return done;
}

Task<Status> PosixFile::WriteAt(uint64_t offset, std::span<const ByteSpan> parts) {
  for (ByteSpan part : parts) CheckAligned(offset, part);
  const PendingOperation pending(this);
  std::vector<iovec> vectors = ToVectors(parts);
  for (std::span<iovec> rest = vectors; !rest.empty();) {
    if (loop_->draining()) co_return Failure("write", -ECANCELED);
    const ssize_t rc =
        co_await WriteOnce(offset, rest.first(std::min<size_t>(rest.size(), IOV_MAX)));
    if (IsTransient(rc)) continue;
    if (rc < 0) co_return Failure("write", rc);
    // Never seen of a file; an endless loop would be worse.
    if (rc == 0) co_return Failure("write", -EIO);
    offset += static_cast<uint64_t>(rc);
    rest = Advance(rest, static_cast<size_t>(rc));
  }
  co_return OkStatus();
}

Task<Status> PosixFile::Sync() {
  const PendingOperation pending(this);
  ssize_t rc = -EINTR;
  while (IsTransient(rc)) {
    if (loop_->draining()) co_return Failure("sync", -ECANCELED);
    rc = co_await SyncOnce();
  }
  co_return rc < 0 ? Failure("sync", rc) : OkStatus();
}

Status PosixFile::Truncate(uint64_t length) {
  return ::ftruncate(fd(), static_cast<off_t>(length)) == 0 ? OkStatus()
                                                            : Failure("truncate", -errno);
}

Status PosixFile::Allocate(uint64_t length) {
  if (length == 0) return OkStatus();
  int rc = -1;
  do {
    rc = ::fallocate(fd(), 0, 0, static_cast<off_t>(length));
  } while (rc != 0 && errno == EINTR);
  if (rc == 0) return OkStatus();
  if (errno != EOPNOTSUPP) return Failure("allocate", -errno);
  Result<uint64_t> size = Size();
  if (!size.ok()) return size.status();
  return *size >= length ? OkStatus() : Truncate(length);
}

Result<uint64_t> PosixFile::Size() {
  struct stat info {};
  if (::fstat(fd(), &info) != 0) return Failure("size of", -errno);
  return static_cast<uint64_t>(info.st_size);
}

}  // namespace ember::io
