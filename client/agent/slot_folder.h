// SlotFolder: the folder through which slots go to and from the engine (its --slot-save-path), best
// on tmpfs. Every file in it that belongs to this replica is named "ember-<replica>-...".
//
// MappedFile: such a file's bytes. Of one that was taken (see Take) nobody else has the name any
// more, so nobody can change or shorten it, and it is gone with the mapping.
//
// Concurrency: any thread; calls are a few system calls on memory.
#pragma once

#include <atomic>
#include <string>

#include "proto/base/bytes.h"
#include "proto/base/status.h"

namespace ember::agent {

class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  ByteSpan bytes() const { return {data_, size_}; }

 private:
  friend class SlotFolder;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

class SlotFolder {
 public:
  // Removes this replica's files of an earlier run. kNotFound: not a folder. kInvalid: a replica id
  // that can't be part of a file name.
  static Result<SlotFolder> Open(std::string path, std::string_view replica_id);
  SlotFolder(SlotFolder&& other) noexcept;

  const std::string& path() const { return path_; }
  bool on_tmpfs() const { return on_tmpfs_; }

  // A name that no file has, for the engine to save to.
  std::string NewSaveName() const;
  Result<MappedFile> Map(const std::string& name) const;
  // Maps what the engine saved and removes its name. kNotFound: the engine wrote elsewhere.
  Result<MappedFile> Take(const std::string& name) const;
  void Remove(const std::string& name) const;

  // The file a slot is restored from; used again and again, for new memory is slower.
  std::string RestoreName(uint32_t slot) const;
  // Its descriptor for reading and writing, to be closed by the caller.
  Result<int> OpenRestoreFile(uint32_t slot) const;

 private:
  SlotFolder() = default;
  std::string path_;
  std::string prefix_;
  bool on_tmpfs_ = false;
  mutable std::atomic<uint64_t> next_{0};
};

}  // namespace ember::agent
