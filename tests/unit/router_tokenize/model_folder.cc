#include "tests/unit/router_tokenize/model_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/support/temp_folder.h"

namespace ember::router {
namespace {

using nlohmann::ordered_json;

constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::string DataFile(const std::string& name) {
  std::ifstream file("tests/unit/router_tokenize/data/" + name);
  EXPECT_TRUE(file) << name << ": run from the source root";
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

const std::vector<ModelKind>& ModelKinds() {
  static const std::vector<ModelKind> kinds = {
      {"gpt4", "byte_level", "", false, "trimming"},
      {"gpt2", "byte_level", kGpt2, false, "chatml"},
      {"qwen", "byte_level", kQwen2, true, "thinking"},
      {"o200k", "byte_level", kO200k, false, "parts"},
      {"sentencepiece", "sentencepiece", "", false, "chatml"},
      {"changing", "byte_level", "", false, "changing"},
  };
  return kinds;
}

const ModelKind& KindNamed(const std::string& name) {
  for (const ModelKind& kind : ModelKinds()) {
    if (kind.name == name) return kind;
  }
  ADD_FAILURE() << "no kind " << name;
  return ModelKinds().front();
}

ModelFolder::ModelFolder(const ModelKind& kind) : path_(MakeTempFolder()) {
  ordered_json tokenizer = ordered_json::parse(DataFile(kind.vocabulary + ".json"));
  if (!kind.regex.empty()) {
    tokenizer["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = kind.regex;
  }
  if (kind.nfc) tokenizer["normalizer"] = {{"type", "NFC"}};
  std::ofstream(path_ + "/tokenizer.json") << tokenizer.dump();
  const bool pieces = kind.vocabulary == "sentencepiece";
  const ordered_json config = {{"bos_token", pieces ? "<s>" : "<|endoftext|>"},
                               {"eos_token", {{"content", pieces ? "</s>" : "<|im_end|>"}}},
                               {"chat_template", DataFile(kind.chat_template + ".jinja")}};
  std::ofstream(path_ + "/tokenizer_config.json") << config.dump();
}

ModelFolder::~ModelFolder() { std::filesystem::remove_all(path_); }

std::shared_ptr<const ModelTokenizer> ModelFolder::Load(bool keep_reference) const {
  auto made = ModelTokenizer::Load(path_, keep_reference);
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  return made.ok() ? *std::move(made) : nullptr;
}

std::string SmolLm2Folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string root = cache != nullptr  ? cache
                           : home != nullptr ? std::string(home) + "/.cache"
                                             : "";
  const std::string folder = root + "/emberkv/vllm-model";
  return std::filesystem::exists(folder + "/tokenizer.json") ? folder : "";
}

}  // namespace ember::router
