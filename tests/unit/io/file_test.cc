// Files and their names: what holds on every loop's disk.

#include <algorithm>
#include <random>

#include "tests/unit/io/file_fixture.h"

namespace ember::io {
namespace {

std::vector<ByteSpan> Cut(ByteSpan bytes, size_t part) {
  std::vector<ByteSpan> parts;
  for (; bytes.size() > part; bytes = bytes.subspan(part)) parts.push_back(bytes.first(part));
  parts.push_back(bytes);
  return parts;
}

Bytes Copy(ByteSpan bytes) { return Bytes(bytes.begin(), bytes.end()); }

// Random writes and reads, one after another, against the same on an array of bytes.
TEST_P(FileTest, BehavesLikeAnArrayOfBytes) {
  RunTask([&]() -> Task<void> {
    const FilePtr file = Open("model");
    Bytes model;
    std::mt19937 random(7);
    const auto below = [&](size_t n) { return random() % n; };
    for (uint32_t step = 0; step < 400 && !HasFailure(); ++step) {
      const uint64_t offset = below(300'000);
      if (below(2) == 0) {
        const Bytes bytes = Pattern(1 + below(100'000), step);
        const std::vector<ByteSpan> parts = Cut(bytes, 1 + below(bytes.size()));
        EXPECT_TRUE((co_await file->WriteAt(offset, parts)).ok());
        model.resize(std::max(model.size(), offset + bytes.size()));
        std::ranges::copy(bytes, model.begin() + static_cast<ptrdiff_t>(offset));
      } else {
        Bytes bytes(below(100'000));
        bytes.resize(*co_await file->ReadAt(offset, bytes));
        const ByteSpan tail = ByteSpan(model).subspan(std::min(offset, model.size()));
        EXPECT_EQ(bytes, Copy(tail.first(std::min(tail.size(), bytes.size())))) << step;
      }
      EXPECT_EQ(*file->Size(), model.size());
    }
    EXPECT_TRUE((co_await file->Sync()).ok());
    EXPECT_EQ(co_await Content(*file), model);
  });
}

// More parts than one system call takes, of odd lengths, empty ones among them.
TEST_P(FileTest, WritesAnyNumberOfPartsInOrder) {
  RunTask([&]() -> Task<void> {
    const FilePtr file = Open("parts");
    const Bytes bytes = Pattern(250'000);
    std::vector<ByteSpan> parts;
    for (ByteSpan rest = bytes; !rest.empty();) {
      const size_t n = std::min(rest.size(), parts.size() % 129);
      parts.push_back(rest.first(n));
      rest = rest.subspan(n);
    }
    EXPECT_GT(parts.size(), 3u * 1024);
    EXPECT_TRUE((co_await file->WriteAt(17, parts)).ok());
    Bytes expected(17);
    expected.insert(expected.end(), bytes.begin(), bytes.end());
    EXPECT_EQ(co_await Content(*file), expected);
    EXPECT_TRUE((co_await file->WriteAt(99, {})).ok());
    EXPECT_EQ(*file->Size(), expected.size());
  });
}

TEST_P(FileTest, ReadsEndWhereTheFileEnds) {
  RunTask([&]() -> Task<void> {
    const FilePtr file = Open("short");
    const Bytes bytes = Pattern(10'000);
    Status written;
    co_await WriteAt(*file, 0, bytes, &written);
    Bytes buffer(8192);
    EXPECT_EQ(*co_await file->ReadAt(0, buffer), 8192u);
    EXPECT_EQ(*co_await file->ReadAt(5000, buffer), 5000u);
    EXPECT_TRUE(std::equal(buffer.begin(), buffer.begin() + 5000, bytes.begin() + 5000));
    EXPECT_EQ(*co_await file->ReadAt(10'000, buffer), 0u);
    EXPECT_EQ(*co_await file->ReadAt(uint64_t{1} << 40, buffer), 0u);
    EXPECT_EQ(*co_await file->ReadAt(0, {}), 0u);
  });
}

TEST_P(FileTest, ManyOperationsAtOnceStayApart) {
  RunTask([&]() -> Task<void> {
    constexpr size_t kOperations = 3000;
    constexpr size_t kSize = 4096;
    const FilePtr file = Open("many", kCreateDirect);
    std::vector<AlignedBytes> blocks;
    std::vector<Status> written(kOperations, InternalError("not done"));
    std::vector<Result<size_t>> read(kOperations, InternalError("not done"));
    Gate writes;
    for (size_t i = 0; i < kOperations; ++i) {
      blocks.emplace_back(kSize);
      std::ranges::copy(Pattern(kSize, static_cast<uint32_t>(i)), blocks[i].span().begin());
    }
    for (size_t i = 0; i < kOperations; ++i) {
      writes.Spawn(WriteAt(*file, i * kSize, blocks[i].span(), &written[i]));
    }
    co_await writes.Close();
    Gate reads;
    for (size_t i = 0; i < kOperations; ++i) {
      blocks[i].Fill(std::byte{0});
      reads.Spawn(ReadAt(*file, i * kSize, blocks[i].span(), &read[i]));
    }
    co_await reads.Close();
    for (size_t i = 0; i < kOperations; ++i) {
      EXPECT_TRUE(written[i].ok() && read[i].ok() && *read[i] == kSize) << i;
      EXPECT_EQ(Copy(blocks[i].span()), Pattern(kSize, static_cast<uint32_t>(i))) << i;
    }
  });
}

TEST_P(FileTest, DirectReadsMayEndInTheMiddleOfABlock) {
  RunTask([&]() -> Task<void> {
    const FilePtr file = Open("direct", kCreateDirect);
    AlignedBytes block(8192);
    std::ranges::copy(Pattern(8192), block.span().begin());
    Status written;
    co_await WriteAt(*file, 0, block.span(), &written);
    EXPECT_TRUE(written.ok()) << written.ToString();
    EXPECT_TRUE(file->Truncate(5000).ok());
    block.Fill(std::byte{0});
    EXPECT_EQ(*co_await file->ReadAt(0, block.span()), 5000u);
    EXPECT_EQ(*co_await file->ReadAt(4096, block.span().first(4096)), 904u);
    EXPECT_EQ(*co_await file->ReadAt(8192, block.span()), 0u);
    Bytes expected = Pattern(8192);
    expected.resize(5000);
    EXPECT_EQ(co_await Content(*Open("direct")), expected);
  });
}

TEST_P(FileTest, UnalignedDirectOperationsAreProgrammerErrors) {
  const FilePtr file = Open("direct", kCreateDirect);
  if (!file->direct()) GTEST_SKIP() << "no direct I/O in " << file->path();
  AlignedBytes block(8192);
  Result<size_t> read = InternalError("");
  Status written;
  EXPECT_DEATH(Gate().Spawn(ReadAt(*file, 512, block.span(), &read)), "aligned");
  EXPECT_DEATH(Gate().Spawn(ReadAt(*file, 0, block.span().first(100), &read)), "aligned");
  EXPECT_DEATH(Gate().Spawn(ReadAt(*file, 0, block.span().subspan(8, 4096), &read)), "aligned");
  EXPECT_DEATH(Gate().Spawn(WriteAt(*file, 0, block.span().subspan(8, 4096), &written)), "aligned");
}

TEST_P(FileTest, DyingUnderAPendingOperationIsAProgrammerError) {
  Bytes buffer(100);
  Result<size_t> read = InternalError("");
  Gate gate;
  const auto start_and_drop = [&] {
    const FilePtr file = Open("dropped");
    gate.Spawn(ReadAt(*file, 0, buffer, &read));
  };
  EXPECT_DEATH(start_and_drop(), "outlives its pending operations");
}

TEST_P(FileTest, TruncateAndAllocateSetTheLength) {
  RunTask([&]() -> Task<void> {
    const FilePtr file = Open("length");
    const Bytes bytes = Pattern(5000);
    Status written;
    co_await WriteAt(*file, 0, bytes, &written);
    EXPECT_TRUE(file->Allocate(1 << 20).ok());
    EXPECT_EQ(*file->Size(), 1u << 20);
    EXPECT_TRUE(file->Allocate(100).ok());
    EXPECT_EQ(*file->Size(), 1u << 20);
    EXPECT_TRUE(file->Truncate(3000).ok());
    EXPECT_TRUE(file->Truncate(6000).ok());
    Bytes expected(bytes.begin(), bytes.begin() + 3000);
    expected.resize(6000);
    EXPECT_EQ(co_await Content(*file), expected);
  });
}

TEST_P(FileTest, OpenSaysWhatIsWrong) {
  EXPECT_TRUE(files().MakeFolder(Path("folder")).ok());
  const Status missing = files().Open(Path("missing"), {}).status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound) << missing.ToString();
  EXPECT_NE(missing.message().find(Path("missing")), std::string::npos);
  EXPECT_EQ(files().Open(Path("no/such"), kCreate).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(files().Open(Path("folder"), {}).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(files().Open(Path("folder"), kCreate).status().code(), StatusCode::kUnavailable);
}

TEST_P(FileTest, AFileOpenedForReadingCantBeWritten) {
  RunTask([&]() -> Task<void> {
    const Bytes bytes = Pattern(100);
    Status written;
    co_await WriteAt(*Open("read"), 0, bytes, &written);
    const FilePtr file = Open("read", {});
    co_await WriteAt(*file, 0, Pattern(100, 2), &written);
    EXPECT_EQ(written.code(), StatusCode::kUnavailable) << written.ToString();
    EXPECT_FALSE(file->Truncate(0).ok());
    EXPECT_EQ(co_await Content(*file), bytes);
  });
}

TEST_P(FileTest, NamesAreMadeListedRenamedAndRemoved) {
  EXPECT_TRUE(files().MakeFolder(Path("a/b")).ok());
  EXPECT_TRUE(files().MakeFolder(Path("a/b")).ok());
  Open("a/y");
  Open("a/x");
  EXPECT_EQ(Must(files().List(Path("a"))),
            (std::vector<FolderEntry>{{"b", true}, {"x", false}, {"y", false}}));
  EXPECT_TRUE(files().Rename(Path("a/x"), Path("a/b/x")).ok());
  EXPECT_TRUE(files().Remove(Path("a/y")).ok());
  EXPECT_FALSE(files().Remove(Path("a/b")).ok());  // not empty
  EXPECT_TRUE(files().SyncFolder(Path("a")).ok());
  EXPECT_EQ(Must(files().List(Path("a"))), (std::vector<FolderEntry>{{"b", true}}));
  EXPECT_EQ(Must(files().List(Path("a/b"))), (std::vector<FolderEntry>{{"x", false}}));
  EXPECT_EQ(files().List(Path("none")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(files().Remove(Path("none")).code(), StatusCode::kNotFound);
  EXPECT_EQ(files().Rename(Path("none"), Path("other")).code(), StatusCode::kNotFound);
  EXPECT_EQ(files().SyncFolder(Path("none")).code(), StatusCode::kNotFound);
}

TEST_P(FileTest, RenameReplacesAndOpenFilesKeepTheirContent) {
  RunTask([&]() -> Task<void> {
    const FilePtr first = Open("first");
    const FilePtr second = Open("second");
    const Bytes one = Pattern(1000, 1);
    const Bytes two = Pattern(2000, 2);
    Status written;
    co_await WriteAt(*first, 0, one, &written);
    co_await WriteAt(*second, 0, two, &written);
    EXPECT_TRUE(files().Rename(Path("first"), Path("second")).ok());
    EXPECT_EQ(co_await Content(*second), two);
    EXPECT_EQ(co_await Content(*Open("second", {})), one);
    EXPECT_TRUE(files().Remove(Path("second")).ok());
    EXPECT_EQ(co_await Content(*first), one);
  });
}

TEST_P(FileTest, KnowsTheSpaceOfTheFileSystem) {
  const DiskSpace space = Must(files().FreeBytes(Path("")));
  EXPECT_GT(space.total_bytes, 0u);
  EXPECT_LE(space.free_bytes, space.total_bytes);
  EXPECT_EQ(files().FreeBytes(Path("none")).status().code(), StatusCode::kNotFound);
}

// Inside, outside and across the ends of memory that was registered.
TEST_P(FileTest, RegisteredMemoryReadsAndWritesTheSame) {
  constexpr size_t kSize = 1 << 20;
  AlignedBytes memory(kSize);
  std::ranges::copy(Pattern(kSize), memory.span().begin());
  const MutableByteSpan registered = memory.span().subspan(kSize / 4, kSize / 2);
  const Status status = loop().RegisterMemory(registered);
  if (!status.ok()) EXPECT_EQ(status.code(), StatusCode::kBusy) << status.ToString();
  RunTask([&]() -> Task<void> {
    const FilePtr file = Open("registered", kCreateDirect);
    for (size_t offset = 0; offset < kSize; offset += kSize / 8) {
      Status written;
      co_await WriteAt(*file, offset, memory.span().subspan(offset, kSize / 8), &written);
      EXPECT_TRUE(written.ok()) << written.ToString();
    }
    const Bytes expected = Pattern(kSize);
    EXPECT_EQ(co_await Content(*Open("registered")), expected);
    for (size_t offset = 0; offset < kSize; offset += kSize / 8) {
      for (size_t size : {kSize / 16, kSize / 8, kSize / 2}) {
        const MutableByteSpan buffer =
            memory.span().subspan(offset, std::min(size, kSize - offset));
        std::ranges::fill(buffer, std::byte{0});
        EXPECT_EQ(*co_await file->ReadAt(offset, buffer), buffer.size());
        EXPECT_EQ(Copy(memory.span()), expected) << offset << " " << size;
      }
    }
  });
  loop_.reset();  // before the memory
}

// What has begun is waited for; afterwards nothing writes into the buffers any more.
TEST_P(FileTest, StopLeavesNoOperationBehind) {
  constexpr size_t kReads = 500;
  constexpr size_t kSize = 64 << 10;
  const Bytes content = Pattern(kSize);
  std::vector<AlignedBytes> buffers;
  for (size_t i = 0; i < kReads; ++i) buffers.emplace_back(kSize);
  std::vector<Result<size_t>> results(kReads, InternalError("not done"));
  Result<size_t> late = InternalError("not done");
  Gate gate;
  FilePtr file = Open("stopped", kCreateDirect);
  loop().Post([&] {
    gate.Spawn([](Loop& loop, File& file, ByteSpan content, std::vector<AlignedBytes>& buffers,
                  std::vector<Result<size_t>>& results, Result<size_t>* late) -> Task<void> {
      Status written;
      std::ranges::copy(content, buffers[0].span().begin());
      co_await WriteAt(file, 0, buffers[0].span(), &written);
      buffers[0].Fill(std::byte{0});
      Gate reads;
      for (size_t i = 0; i < kReads; ++i) {
        reads.Spawn(ReadAt(file, 0, buffers[i].span(), &results[i]));
      }
      loop.Stop();
      co_await reads.Close();
      co_await ReadAt(file, 0, buffers[0].span(), late);
    }(loop(), *file, content, buffers, results, &late));
  });
  loop().Run();
  EXPECT_EQ(gate.running(), 0u);
  EXPECT_EQ(late.status().code(), StatusCode::kCancelled);
  for (size_t i = 0; i < kReads; ++i) {
    if (results[i].ok()) {
      EXPECT_EQ(*results[i], kSize);
      EXPECT_EQ(Copy(buffers[i].span()), content);
    } else {
      EXPECT_EQ(results[i].status().code(), StatusCode::kCancelled);
    }
    buffers[i].Fill(std::byte{0x5a});
  }
  file.reset();
  for (const AlignedBytes& buffer : buffers) {
    EXPECT_TRUE(
        std::ranges::all_of(buffer.span(), [](std::byte b) { return b == std::byte{0x5a}; }));
  }
}

EMBER_EVERY_LOOP(FileTest);

}  // namespace
}  // namespace ember::io
