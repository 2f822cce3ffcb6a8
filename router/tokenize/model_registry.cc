#include "router/tokenize/model_registry.h"

#include <spdlog/spdlog.h>

#include "router/tokenize/template_proof.h"

namespace ember::router {

Result<TokenizerConfig> TokenizerConfig::Parse(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == text.npos || equals == 0 || equals + 1 == text.size()) {
    return InvalidError("\"" + std::string(text) + "\" is not MODEL=FOLDER");
  }
  return TokenizerConfig{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

Status ModelRegistry::Load(const std::vector<TokenizerConfig>& configs) {
  std::map<std::string, std::shared_ptr<const ModelTokenizer>> loaded;  // by path
  for (const TokenizerConfig& config : configs) {
    auto& tokenizer = loaded[config.path];
    if (tokenizer == nullptr) {
      auto made = ModelTokenizer::Load(config.path);
      if (!made.ok()) return made.status().WithContext("tokenizer of \"" + config.model + "\"");
      tokenizer = *std::move(made);
    }
    Add(config.model, tokenizer);
    const LoadedModel& model = models_.find(config.model)->second;
    spdlog::info("tokenizer of \"{}\": {}, {} tokens, cuts {:#x}, {}", config.model,
                 tokenizer->fast() ? "fast" : "the reference", tokenizer->ids(), tokenizer->cuts(),
                 !tokenizer->has_template() ? "no chat template"
                 : model.slot_roles != 0    ? "chat template"
                                            : "chat template that looks into texts");
  }
  return OkStatus();
}

void ModelRegistry::Add(const std::string& model, std::shared_ptr<const ModelTokenizer> tokenizer) {
  LoadedModel& added = models_[model];
  added.slot_roles = ProvenSlotRoles(*tokenizer);
  // Models with one tokenizer share their texts.
  const auto address = reinterpret_cast<uintptr_t>(tokenizer.get());
  added.root = SecretHash().Of(std::as_bytes(std::span(&address, 1)));
  for (const auto& [name, other] : models_) {
    if (other.tokenizer == tokenizer) added.root = other.root;
  }
  added.tokenizer = std::move(tokenizer);
}

LoadedModel* ModelRegistry::Find(std::string_view model, std::string_view base) {
  auto it = models_.find(model);
  if (it == models_.end() && !base.empty()) it = models_.find(base);
  if (it == models_.end()) it = models_.find(std::string_view("*"));
  return it == models_.end() ? nullptr : &it->second;
}

}  // namespace ember::router
