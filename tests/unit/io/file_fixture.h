// FileTest: a LoopTest with a folder of its own on the loop's disk.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/io/loop_fixture.h"

namespace ember::io {

// Memory that direct I/O takes.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t size)
      : bytes_(static_cast<std::byte*>(::operator new(size, std::align_val_t{kDirectAlignment}))),
        size_(size) {
    Fill(std::byte{0});
  }
  AlignedBytes(AlignedBytes&& other) noexcept
      : bytes_(std::exchange(other.bytes_, nullptr)), size_(other.size_) {}
  ~AlignedBytes() { ::operator delete(bytes_, std::align_val_t{kDirectAlignment}); }

  MutableByteSpan span() { return {bytes_, size_}; }
  ByteSpan span() const { return {bytes_, size_}; }
  void Fill(std::byte value) { std::fill_n(bytes_, size_, value); }

 private:
  std::byte* bytes_;
  size_t size_;
};

class FileTest : public LoopTest {
 protected:
  using FilePtr = std::unique_ptr<File>;
  static constexpr OpenOptions kCreate{.create = true, .write = true};
  static constexpr OpenOptions kCreateDirect{.create = true, .write = true, .direct = true};

  void SetUp() override {
    LoopTest::SetUp();
    if (IsSkipped()) return;
    static int folders = 0;
    folder_ = testing::TempDir() + "ember_io_" + std::to_string(::getpid()) + "_" +
              std::to_string(++folders);
    EMBER_CHECK(files().MakeFolder(folder_).ok(), "a folder for the test");
  }
  void TearDown() override {
    if (loop_ != nullptr) RemoveAll(folder_);
    LoopTest::TearDown();
  }

  FileSystem& files() { return loop().files(); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  FilePtr Open(const std::string& name, OpenOptions options = kCreate) {
    return Must(files().Open(Path(name), options));
  }

  static Task<void> WriteAt(File& file, uint64_t offset, ByteSpan bytes, Status* out) {
    *out = co_await file.WriteAt(offset, {&bytes, 1});
  }
  static Task<void> ReadAt(File& file, uint64_t offset, MutableByteSpan buffer,
                           Result<size_t>* out) {
    *out = co_await file.ReadAt(offset, buffer);
  }
  static Task<Bytes> Content(File& file) {
    Bytes bytes(*file.Size());
    EXPECT_EQ(*co_await file.ReadAt(0, bytes), bytes.size());
    co_return bytes;
  }

 private:
  void RemoveAll(const std::string& folder) {
    for (const FolderEntry& entry : Must(files().List(folder))) {
      const std::string path = folder + "/" + entry.name;
      if (entry.is_folder) {
        RemoveAll(path);
      } else {
        EXPECT_TRUE(files().Remove(path).ok());
      }
    }
    EXPECT_TRUE(files().Remove(folder).ok());
  }

  std::string folder_;
};

}  // namespace ember::io
