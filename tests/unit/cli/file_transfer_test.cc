#include "client/cli/file_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "proto/base/random.h"
#include "tests/unit/store_client/client_fixture.h"
#include "tests/unit/support/temp_folder.h"

namespace ember::cli {
namespace {

using ::testing::HasSubstr;

class FileTransferTest : public ::testing::Test, public testing::ClientFixture {
 protected:
  FileTransferTest() : ClientFixture(io::Backend::kEpoll) {
    folder_ = MakeTempFolder();
    StartNodes(2);
    client_ = Connect();
  }
  ~FileTransferTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string MakeFile(const std::string& name, size_t size, uint64_t seed) const {
    SeededRandom random(seed);
    std::string content(size, '\0');
    for (char& c : content) c = static_cast<char>(random.Next());
    std::ofstream(Path(name), std::ios::binary) << content;
    return content;
  }
  std::string Content(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t FileCount() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }
  FileTransfer Transfer() {
    return FileTransfer(*client_, {.timeout = seconds(10), .chunks_per_batch = 2});
  }

  std::unique_ptr<StoreClient> client_;

 private:
  std::string folder_;
};

TEST_F(FileTransferTest, AFileComesBackAsItWas) {
  for (const size_t size :
       {size_t{0}, size_t{1}, kChunkBytes, kChunkBytes + 1, 5 * kChunkBytes - 7}) {
    SCOPED_TRACE(size);
    const std::string name = "file-" + std::to_string(size);
    const std::string content = MakeFile(name, size, size);
    const auto put = Transfer().Put(Path(name), name);
    ASSERT_TRUE(put.ok()) << put.status().ToString();
    EXPECT_EQ(put->fewest_copies, 2u);
    EXPECT_EQ(put->chunks_sent, put->manifest.chunk_count());
    const auto got = Transfer().Get(name, Path("out"));
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    EXPECT_EQ(*got, put->manifest);
    EXPECT_EQ(Content("out"), content);
  }
}

TEST_F(FileTransferTest, PuttingItAgainSendsNothing) {
  MakeFile("a", 3 * kChunkBytes, 1);
  ASSERT_TRUE(Transfer().Put(Path("a"), "a").ok());
  const auto again = Transfer().Put(Path("a"), "a");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->chunks_sent, 0u);
  // The content is the same under another name, too.
  EXPECT_EQ(Transfer().Put(Path("a"), "b")->chunks_sent, 0u);
}

TEST_F(FileTransferTest, ANameKeepsItsFile) {
  MakeFile("a", 1000, 1);
  MakeFile("b", 1000, 2);
  ASSERT_TRUE(Transfer().Put(Path("a"), "name").ok());
  const auto other = Transfer().Put(Path("b"), "name");
  EXPECT_EQ(other.status().code(), StatusCode::kMismatch);
  ASSERT_TRUE(Transfer().Get("name", Path("out")).ok());
  EXPECT_EQ(Content("out"), Content("a"));
}

TEST_F(FileTransferTest, AMissSaysWhatAndWhyAndLeavesNoFile) {
  const auto unknown = Transfer().Get("nobody", Path("out"));
  EXPECT_EQ(unknown.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("never_stored"));

  MakeFile("a", 4 * kChunkBytes, 1);
  const auto put = Transfer().Put(Path("a"), "a");
  const FileChain chain = FileChain::OfContent(put->manifest);
  for (auto& node : nodes) node->Evict(chain.refs()[3].key);
  const size_t files = FileCount();
  const auto got = Transfer().Get("a", Path("out"));
  EXPECT_EQ(got.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(got.status().message()), HasSubstr("chunk 3 of 4: evicted"));
  EXPECT_EQ(FileCount(), files);

  const auto match = Transfer().Match("a");
  ASSERT_TRUE(match.ok());
  EXPECT_EQ(match->present, 3u);
  EXPECT_EQ(match->usable, 3u);
  EXPECT_EQ(match->missing.at(MissReason::kEvicted), 1u);
}

TEST_F(FileTransferTest, WithoutNodesItSaysSo) {
  for (auto& node : nodes) node->Stop();
  MakeFile("a", 1000, 1);
  EXPECT_EQ(Transfer().Put(Path("a"), "a").status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(Transfer().Get("a", Path("out")).status().code(), StatusCode::kUnavailable);
}

TEST_F(FileTransferTest, RefusesWhatIsNoFile) {
  EXPECT_EQ(Transfer().Put(Path("absent"), "a").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Transfer().Put(Path("."), "a").status().code(), StatusCode::kInvalid);
  MakeFile("a", 1000, 1);
  EXPECT_EQ(Transfer().Put(Path("a"), "").status().code(), StatusCode::kInvalid);
}

TEST(FileManifest, DecodesOnlyWhatEncodeMakes) {
  const FileManifest manifest{123456789, Sha256(AsBytes("x"))};
  Bytes bytes = Encode(manifest);
  ASSERT_EQ(bytes.size(), kManifestBytes);
  EXPECT_EQ(*DecodeFileManifest(bytes), manifest);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeFileManifest(ByteSpan(bytes).first(size)).ok());
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(DecodeFileManifest(bytes).ok());
  bytes = Encode(FileManifest{kMaxFileBytes + 1, {}});
  EXPECT_FALSE(DecodeFileManifest(bytes).ok());
}

// A chunk's key depends on the content and on its place, so versions and chunks never mix.
TEST(FileChain, KeysAreOfContentAndPlace) {
  const FileManifest a{10 * kChunkBytes, Sha256(AsBytes("a"))};
  const FileManifest b{10 * kChunkBytes, Sha256(AsBytes("b"))};
  std::set<std::string> keys;
  for (const FileManifest& manifest : {a, b}) {
    const FileChain chain = FileChain::OfContent(manifest);
    for (const SegmentRef& ref : chain.refs()) keys.insert(ref.key.ToString());
  }
  keys.insert(FileChain::OfName("a").refs()[0].key.ToString());
  EXPECT_EQ(keys.size(), 21u);
}

}  // namespace
}  // namespace ember::cli
