// ModelRegistry: which tokenizer is used for which model, and whether it is trusted.
// Concurrency: filled before the loop; then the router's loop thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/checksum.h"
#include "router/tokenize/model_tokenizer.h"

namespace ember::router {

// "--tokenizer MODEL=FOLDER"; "*" stands for every model that has none of its own.
struct TokenizerConfig {
  std::string model;
  std::string path;
  static Result<TokenizerConfig> Parse(std::string_view text);
};

struct LoadedModel {
  std::shared_ptr<const ModelTokenizer> tokenizer;
  uint32_t slot_roles = 0;  // whose texts the template need not see, tried out
  Checksum root{};          // what its texts are named under
  bool trusted = true;      // an engine's own tokens were not found to differ
  bool compared = false;    // with any engine's
};

class ModelRegistry {
 public:
  // kInvalid, with the model and what is wrong with its tokenizer.
  Status Load(const std::vector<TokenizerConfig>& configs);
  void Add(const std::string& model, std::shared_ptr<const ModelTokenizer> tokenizer);
  // The model's own, else that of the model whose adapter it is (`base`, may be empty), else "*"'s.
  // Null: there is none for it.
  LoadedModel* Find(std::string_view model, std::string_view base = {});
  bool empty() const { return models_.empty(); }
  const std::map<std::string, LoadedModel, std::less<>>& all() const { return models_; }

 private:
  std::map<std::string, LoadedModel, std::less<>> models_;
};

}  // namespace ember::router
