// Cancelling reads whose buffers are used again at once: nothing may land in a buffer after its
// read has ended. 100,000 cancels for each kind of loop, over connections and files.

#include <algorithm>

#include "tests/unit/io/file_fixture.h"

namespace ember::io {
namespace {

constexpr std::byte kPoison{0x5a};

bool IsPoison(ByteSpan bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == kPoison; });
}

class UseAfterCancelTest : public FileTest {
 protected:
  static constexpr size_t kReadSize = 4096;
  static constexpr size_t kSent = 3000;

  // What a cancelled read may leave: the start of what its own connection sent, and no more.
  static bool HoldsOnly(ByteSpan buffer, ByteSpan sent) {
    const auto [end, other] = std::ranges::mismatch(buffer, sent);
    return IsPoison({end, buffer.end()});
  }

  struct Victim {
    StreamPair pair;
    Bytes buffer = Bytes(kReadSize, kPoison);
    Bytes sent;
    Status read;
    Status written;
  };

  // `victims` reads pending on as many connections, each cancelled while its peer sends.
  Task<void> CancelReads(std::vector<Victim>& victims, uint32_t round) {
    ListenerPtr listener = Must(loop().Listen({"127.0.0.1", 0}));
    for (Victim& victim : victims) {
      Gate accept;
      accept.Spawn(AcceptOne(*listener, &victim.pair.server));
      victim.pair.client =
          Must(co_await loop().Connect({"127.0.0.1", listener->port()}, seconds(20)));
      co_await accept.Close();
    }
    // The same buffers, another connection: its bytes are all that may be in them.
    Gate gate;
    for (size_t i = 0; i < victims.size(); ++i) {
      Victim& victim = victims[i];
      EXPECT_TRUE(IsPoison(victim.buffer)) << "a write after the end of its read";
      victim.sent = Pattern(kSent, round * 1000 + static_cast<uint32_t>(i));
      gate.Spawn(Read(*victim.pair.server, victim.buffer, &victim.read));
    }
    for (size_t i = 0; i < victims.size(); ++i) {
      Victim& victim = victims[i];
      const bool early = (i + round) % 3 == 0;
      if (early) victim.pair.server->Close();
      gate.Spawn(Write(*victim.pair.client, victim.sent, &victim.written));
      if (!early && (i + round) % 3 == 1) victim.pair.server->Close();
    }
    for (Victim& victim : victims) victim.pair.server->Close();
    co_await gate.Close();
    for (Victim& victim : victims) {
      EXPECT_EQ(victim.read.code(), StatusCode::kCancelled) << victim.read.ToString();
      EXPECT_TRUE(HoldsOnly(victim.buffer, victim.sent));
      std::ranges::fill(victim.buffer, kPoison);
      victim.pair = {};
    }
  }
};

TEST_P(UseAfterCancelTest, ReadsOfConnections) {
  constexpr size_t kVictims = 100;
  constexpr uint32_t kRounds = 100;
  RunTask([&]() -> Task<void> {
    std::vector<Victim> victims(kVictims);
    for (uint32_t round = 0; round < kRounds && !HasFailure(); ++round) {
      co_await CancelReads(victims, round);
    }
    co_await loop().Sleep(milliseconds(5));
    for (const Victim& victim : victims) EXPECT_TRUE(IsPoison(victim.buffer));
  });
}

constexpr size_t kBlocks = 64;

// Starts a read of `file` into each buffer, buffer i from block i + `shift`, and stops the loop.
Task<void> StopUnderReads(Loop& loop, const std::string& path, size_t shift,
                          std::vector<AlignedBytes>& buffers, std::vector<Result<size_t>>& results,
                          std::span<const Bytes> blocks) {
  const std::unique_ptr<File> file =
      Must(loop.files().Open(path, {.create = true, .write = true, .direct = shift % 5 == 0}));
  if (*file->Size() == 0) {
    for (size_t i = 0; i < kBlocks; ++i) {
      std::ranges::copy(blocks[i], buffers[0].span().begin());
      const ByteSpan block = buffers[0].span();
      EXPECT_TRUE((co_await file->WriteAt(i * block.size(), {&block, 1})).ok());
    }
    buffers[0].Fill(kPoison);
  }
  Gate gate;
  for (size_t i = 0; i < buffers.size(); ++i) {
    gate.Spawn(
        [](File& file, uint64_t offset, MutableByteSpan buffer, Result<size_t>* out) -> Task<void> {
          *out = co_await file.ReadAt(offset, buffer);
        }(*file, (i + shift) % kBlocks * buffers[i].span().size(), buffers[i].span(), &results[i]));
  }
  loop.Stop();
  co_await gate.Close();
}

// Only Stop cancels I/O on files; so each round is a loop of its own.
TEST_P(UseAfterCancelTest, ReadsOfFiles) {
  constexpr size_t kReads = 900;
  constexpr size_t kRounds = 100;
  std::vector<AlignedBytes> buffers;
  for (size_t i = 0; i < kReads; ++i) {
    buffers.emplace_back(kReadSize);
    buffers.back().Fill(kPoison);
  }
  std::vector<Bytes> blocks;
  for (uint32_t i = 0; i < kBlocks; ++i) blocks.push_back(Pattern(kReadSize, i));
  for (size_t round = 0; round < kRounds && !HasFailure(); ++round) {
    const std::unique_ptr<Loop> stopped = Must(GetParam().make());
    EXPECT_TRUE(stopped->files().MakeFolder(Path("")).ok());
    std::vector<Result<size_t>> results(kReads, InternalError("not done"));
    Gate gate;
    stopped->Post([&] {
      gate.Spawn(StopUnderReads(*stopped, Path("victim"), round, buffers, results, blocks));
    });
    stopped->Run();
    EXPECT_EQ(gate.running(), 0u);
    for (size_t i = 0; i < kReads; ++i) {
      if (results[i].ok()) {
        EXPECT_TRUE(std::ranges::equal(buffers[i].span(), blocks[(i + round) % kBlocks]));
      } else {
        EXPECT_EQ(results[i].status().code(), StatusCode::kCancelled);
      }
      buffers[i].Fill(kPoison);
    }
    for (const AlignedBytes& buffer : buffers) EXPECT_TRUE(IsPoison(buffer.span()));
  }
}

EMBER_EVERY_LOOP(UseAfterCancelTest);

}  // namespace
}  // namespace ember::io
