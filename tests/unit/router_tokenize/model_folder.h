// Tokenizers and chat templates for tests, written as folders like those of a model hub. The
// vocabularies are small (data/); the ways of splitting and the templates are those of real models.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "router/tokenize/model_tokenizer.h"

namespace ember::router {

// What a model of tests is made of.
struct ModelKind {
  std::string name;
  std::string vocabulary;  // "byte_level" or "sentencepiece"
  std::string regex;       // of its pre-tokenizer; empty: as the vocabulary was trained
  bool nfc = false;
  std::string chat_template;  // a file of data/
};

// Every kind, with distinct templates.
const std::vector<ModelKind>& ModelKinds();
const ModelKind& KindNamed(const std::string& name);

class ModelFolder {
 public:
  explicit ModelFolder(const ModelKind& kind);
  ~ModelFolder();
  const std::string& path() const { return path_; }
  std::shared_ptr<const ModelTokenizer> Load(bool keep_reference = true) const;

 private:
  const std::string path_;
};

// SmolLM2's own folder, where engine tests have put it; empty: it is not on this machine.
std::string SmolLm2Folder();

}  // namespace ember::router
