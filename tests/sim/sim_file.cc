#include "tests/sim/sim_file.h"

namespace ember::sim {
namespace {

// As the kernel says it of a device that is gone.
Status GoneError(std::string_view what, const std::string& path) {
  return UnavailableError(std::string(what) + " " + path + ": No such device");
}

bool Aligned(uint64_t n) { return n % io::kDirectAlignment == 0; }

}  // namespace

// ---- file system

Status SimFileSystem::Alive() const {
  return disk_->losses() == mounted_ ? OkStatus() : UnavailableError("the disk has lost power");
}

Result<std::unique_ptr<io::File>> SimFileSystem::Open(const std::string& path,
                                                      io::OpenOptions options) {
  EMBER_RETURN_IF_ERROR(Alive());
  Result<std::shared_ptr<SimInode>> inode = disk_->Open(path, options);
  if (!inode.ok()) return inode.status();
  return std::unique_ptr<io::File>(
      std::make_unique<SimFile>(loop_, disk_, *std::move(inode), path, options));
}

Status SimFileSystem::MakeFolder(const std::string& path) {
  EMBER_RETURN_IF_ERROR(Alive());
  return disk_->MakeFolder(path);
}

Status SimFileSystem::Remove(const std::string& path) {
  EMBER_RETURN_IF_ERROR(Alive());
  return disk_->Remove(path);
}

Status SimFileSystem::Rename(const std::string& from, const std::string& to) {
  EMBER_RETURN_IF_ERROR(Alive());
  return disk_->Rename(from, to);
}

Status SimFileSystem::SyncFolder(const std::string& path) {
  EMBER_RETURN_IF_ERROR(Alive());
  return disk_->SyncFolder(path);
}

Result<std::vector<io::FolderEntry>> SimFileSystem::List(const std::string& path) {
  EMBER_RETURN_IF_ERROR(Alive());
  return disk_->List(path);
}

Result<io::DiskSpace> SimFileSystem::FreeBytes(const std::string& path) {
  EMBER_RETURN_IF_ERROR(Alive());
  return disk_->FreeBytes(path);
}

// ---- file

// Ends when the disk is done; never called back.
class SimFile::Delay {
 public:
  Delay(SimFile* file, Duration latency) : file_(file), latency_(latency) {}
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> caller) {
    ++file_->pending_;
    SimLoop* loop = file_->loop_;
    loop->BeginUncancellable();
    loop->simulation().After(latency_, loop, [loop, caller] {
      loop->EndUncancellable();
      loop->Enqueue(caller);
    });
  }
  void await_resume() { --file_->pending_; }

 private:
  SimFile* const file_;
  const Duration latency_;
};

SimFile::SimFile(SimLoop* loop, std::shared_ptr<SimDisk> disk, std::shared_ptr<SimInode> inode,
                 std::string path, io::OpenOptions options)
    : loop_(loop),
      disk_(std::move(disk)),
      inode_(std::move(inode)),
      path_(std::move(path)),
      options_(options),
      mounted_(disk_->losses()) {
  ++inode_->users;
}

SimFile::~SimFile() {
  EMBER_CHECK(pending_ == 0, "a file outlives its pending operations");
  --inode_->users;
}

SimFile::Delay SimFile::Work(uint64_t offset, uint64_t bytes) {
  return Delay(this, disk_->Latency(path_, offset, bytes));
}

Status SimFile::Alive(std::string_view what) const {
  return disk_->losses() == mounted_ ? OkStatus() : GoneError(what, path_);
}

Status SimFile::MayWrite(std::string_view what) const {
  EMBER_RETURN_IF_ERROR(Alive(what));
  if (options_.write) return OkStatus();
  return UnavailableError(std::string(what) + " " + path_ + ": Bad file descriptor");
}

io::Task<Result<size_t>> SimFile::ReadAt(uint64_t offset, MutableByteSpan buffer) {
  EMBER_CHECK(!direct() || (Aligned(offset) && Aligned(buffer.size()) &&
                            Aligned(reinterpret_cast<uintptr_t>(buffer.data()))),
              "direct I/O is aligned");
  if (loop_->draining()) co_return CancelledError("read " + path_ + ": the loop has stopped");
  co_await Work(offset, buffer.size());
  EMBER_CO_RETURN_IF_ERROR(Alive("read"));
  Result<size_t> read = disk_->Read(*inode_, path_, offset, buffer);
  loop_->simulation().Note(read.ok() ? *read : ~uint64_t{0});
  co_return read;
}

io::Task<Status> SimFile::WriteAt(uint64_t offset, std::span<const ByteSpan> list) {
  const std::vector<ByteSpan> parts(list.begin(), list.end());
  uint64_t size = 0;
  for (ByteSpan part : parts) {
    EMBER_CHECK(!direct() || (Aligned(offset) && Aligned(part.size()) &&
                              Aligned(reinterpret_cast<uintptr_t>(part.data()))),
                "direct I/O is aligned");
    size += part.size();
  }
  if (loop_->draining()) co_return CancelledError("write " + path_ + ": the loop has stopped");
  EMBER_CO_RETURN_IF_ERROR(MayWrite("write"));
  const auto pending = disk_->BeginWrite({inode_, offset, parts});
  co_await Work(offset, size);
  disk_->EndWrite(pending);
  EMBER_CO_RETURN_IF_ERROR(Alive("write"));
  Bytes bytes;
  bytes.reserve(size);
  for (ByteSpan part : parts) bytes.insert(bytes.end(), part.begin(), part.end());
  const Status status = disk_->Write(*inode_, path_, offset, bytes);
  loop_->simulation().Note(status.ok() ? size : ~size);
  co_return status;
}

io::Task<Status> SimFile::Sync() {
  if (loop_->draining()) co_return CancelledError("sync " + path_ + ": the loop has stopped");
  const SimInode::Snapshot snapshot = inode_->BeginSync();
  co_await Work(0, 0);
  EMBER_CO_RETURN_IF_ERROR(Alive("sync"));
  co_return disk_->Sync(*inode_, snapshot, path_);
}

Status SimFile::Truncate(uint64_t length) {
  EMBER_RETURN_IF_ERROR(MayWrite("truncate"));
  inode_->Truncate(length);
  return OkStatus();
}

Status SimFile::Allocate(uint64_t length) {
  EMBER_RETURN_IF_ERROR(MayWrite("allocate"));
  return disk_->Reserve(*inode_, path_, length);
}

Result<uint64_t> SimFile::Size() {
  EMBER_RETURN_IF_ERROR(Alive("size of"));
  return inode_->size();
}

}  // namespace ember::sim
