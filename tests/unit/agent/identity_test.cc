#include "client/agent/identity.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ember::agent {
namespace {

SlotShape Shape() { return {2, 0, 0, {{1, 384}, {1, 384}, {1, 384}, {1, 384}}}; }

ModelFile File() {
  ModelFile file;
  file.path = "/models/m.gguf";
  file.bytes = 1000;
  file.digest[0] = std::byte{1};
  return file;
}

EngineProps Props() {
  EngineProps props;
  props.build = "b1";
  props.model_path = "/models/m.gguf";
  return props;
}

NamespaceId IdOf(const IdentityOptions& options, const ModelFile& file, const EngineProps& props,
                 const SlotShape& shape) {
  auto identity = MakeIdentity(options, file, props, shape);
  EXPECT_TRUE(identity.ok()) << identity.status().ToString();
  return identity->root.id;
}

TEST(EngineIdentityTest, EverythingThatMattersGivesAnotherNamespace) {
  const NamespaceId base = IdOf({}, File(), Props(), Shape());
  EXPECT_EQ(base, IdOf({}, File(), Props(), Shape()));
  EXPECT_NE(base, IdOf({"t", "", ""}, File(), Props(), Shape()));
  EXPECT_NE(base, IdOf({"", "s", ""}, File(), Props(), Shape()));
  EXPECT_NE(base, IdOf({"", "", "yarn"}, File(), Props(), Shape()));
  ModelFile file = File();
  file.digest[31] = std::byte{1};
  EXPECT_NE(base, IdOf({}, file, Props(), Shape()));
  EngineProps props = Props();
  props.build = "b2";
  EXPECT_NE(base, IdOf({}, File(), props, Shape()));
  SlotShape shape = Shape();
  shape.planes[1].type = 8;  // one layer only
  EXPECT_NE(base, IdOf({}, File(), Props(), shape));
  shape = Shape();
  shape.n_rot_k = 64;
  EXPECT_NE(base, IdOf({}, File(), Props(), shape));
}

TEST(EngineIdentityTest, NamesTheElementTypes) {
  auto identity = MakeIdentity({}, File(), Props(), Shape());
  ASSERT_TRUE(identity.ok());
  EXPECT_EQ(identity->ns.layout.key_type, "f16");
  EXPECT_EQ(identity->ns.layout.head_size, 192u);
  EXPECT_EQ(identity->ns.layout.tokens_per_block, kTokensPerBlock);
}

TEST(CheckSameModelTest, TheEngineMustRunOurFile) {
  EXPECT_TRUE(CheckSameModel(File(), Props(), 990).ok());
  EngineProps props = Props();
  props.model_path = "m.gguf";  // relative to a folder of its own
  EXPECT_TRUE(CheckSameModel(File(), props, 990).ok());
  props.model_path = "/models/other.gguf";
  EXPECT_EQ(CheckSameModel(File(), props, 990).code(), StatusCode::kMismatch);
  EXPECT_EQ(CheckSameModel(File(), Props(), 1001).code(), StatusCode::kMismatch);
  ModelFile large = File();
  large.bytes = 1u << 30;
  EXPECT_EQ(CheckSameModel(large, Props(), 990).code(), StatusCode::kMismatch);
}

TEST(ModelFileTest, NoticesThatTheFileChanged) {
  const auto path =
      std::filesystem::temp_directory_path() / ("ember-model-" + std::to_string(::getpid()));
  std::ofstream(path) << "weights";
  auto file = ModelFile::Read(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->digest, Sha256(AsBytes("weights")));
  EXPECT_TRUE(file->Unchanged());
  std::ofstream(path) << "other weights";
  EXPECT_FALSE(file->Unchanged());
  std::filesystem::remove(path);
  EXPECT_EQ(ModelFile::Read(path).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace ember::agent
