#include "client/agent/slot_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ember::agent {
namespace {
namespace fs = std::filesystem;

class SlotFolderTest : public ::testing::Test {
 protected:
  SlotFolderTest() {
    path_ = fs::temp_directory_path() / ("ember-slots-" + std::to_string(::getpid()));
    fs::create_directories(path_);
  }
  ~SlotFolderTest() override { fs::remove_all(path_); }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(path_ / name) << text;
  }
  SlotFolder Open() {
    auto folder = SlotFolder::Open(path_, "a");
    EXPECT_TRUE(folder.ok());
    return *std::move(folder);
  }
  fs::path path_;
};

TEST_F(SlotFolderTest, TakesWhatWasSavedAndItsNameIsGone) {
  const SlotFolder folder = Open();
  const std::string name = folder.NewSaveName();
  EXPECT_NE(name, folder.NewSaveName());
  Write(name, "kv");
  auto file = folder.Take(name);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(AsString(file->bytes()), "kv");
  EXPECT_FALSE(fs::exists(path_ / name));
  EXPECT_EQ(folder.Take(name).status().code(), StatusCode::kNotFound);
}

TEST_F(SlotFolderTest, RefusesEmptyFilesFoldersAndLinks) {
  const SlotFolder folder = Open();
  Write("empty", "");
  EXPECT_EQ(folder.Map("empty").status().code(), StatusCode::kCorrupt);
  fs::create_directory(path_ / "folder");
  EXPECT_FALSE(folder.Map("folder").ok());
  Write("target", "x");
  fs::create_symlink(path_ / "target", path_ / "link");
  EXPECT_FALSE(folder.Map("link").ok());
}

TEST_F(SlotFolderTest, ClearsOnlyItsOwnLeftovers) {
  Write("ember-a-save-1-1.bin", "x");
  Write("ember-a-restore-0.bin", "x");
  Write("ember-b-save-1-1.bin", "x");
  Write("other", "x");
  (void)Open();
  EXPECT_FALSE(fs::exists(path_ / "ember-a-save-1-1.bin"));
  EXPECT_FALSE(fs::exists(path_ / "ember-a-restore-0.bin"));
  EXPECT_TRUE(fs::exists(path_ / "ember-b-save-1-1.bin"));
  EXPECT_TRUE(fs::exists(path_ / "other"));
}

TEST_F(SlotFolderTest, SaysWhatIsWrongWithTheFolderOrTheName) {
  EXPECT_EQ(SlotFolder::Open(path_ / "none", "a").status().code(), StatusCode::kNotFound);
  Write("file", "x");
  EXPECT_EQ(SlotFolder::Open(path_ / "file", "a").status().code(), StatusCode::kNotFound);
  for (const char* id : {"", "a/b", "../x", "a b"}) {
    EXPECT_EQ(SlotFolder::Open(path_, id).status().code(), StatusCode::kInvalid) << id;
  }
}

}  // namespace
}  // namespace ember::agent
