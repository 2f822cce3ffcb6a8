// SimFileSystem and SimFile: a SimDisk as one loop sees it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/io/file_system.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_loop.h"

namespace ember::sim {

class SimFileSystem final : public io::FileSystem {
 public:
  SimFileSystem(SimLoop* loop, std::shared_ptr<SimDisk> disk)
      : loop_(loop), disk_(std::move(disk)), mounted_(disk_->losses()) {}

  Result<std::unique_ptr<io::File>> Open(const std::string& path, io::OpenOptions options) override;
  Status MakeFolder(const std::string& path) override;
  Status Remove(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status SyncFolder(const std::string& path) override;
  Result<std::vector<io::FolderEntry>> List(const std::string& path) override;
  Result<io::DiskSpace> FreeBytes(const std::string& path) override;

 private:
  // Whether the disk is still what was mounted.
  Status Alive() const;

  SimLoop* const loop_;
  const std::shared_ptr<SimDisk> disk_;
  const uint64_t mounted_;
};

class SimFile final : public io::File {
 public:
  SimFile(SimLoop* loop, std::shared_ptr<SimDisk> disk, std::shared_ptr<SimInode> inode,
          std::string path, io::OpenOptions options);
  ~SimFile() override;

  io::Task<Result<size_t>> ReadAt(uint64_t offset, MutableByteSpan buffer) override;
  io::Task<Status> WriteAt(uint64_t offset, std::span<const ByteSpan> parts) override;
  io::Task<Status> Sync() override;
  Status Truncate(uint64_t length) override;
  Status Allocate(uint64_t length) override;
  Result<uint64_t> Size() override;
  bool direct() const override { return options_.direct; }
  const std::string& path() const override { return path_; }

 private:
  class Delay;

  // Suspends for as long as the disk takes for it.
  Delay Work(uint64_t offset, uint64_t bytes);
  Status Alive(std::string_view what) const;
  Status MayWrite(std::string_view what) const;

  SimLoop* const loop_;
  const std::shared_ptr<SimDisk> disk_;
  const std::shared_ptr<SimInode> inode_;
  const std::string path_;
  const io::OpenOptions options_;
  const uint64_t mounted_;
  size_t pending_ = 0;
};

}  // namespace ember::sim
