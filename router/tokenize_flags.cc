#include "router/tokenize_flags.h"

#include <CLI/CLI.hpp>

namespace ember::router {

void TokenizeFlags::Declare(CLI::App& app) {
  const auto option = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->capture_default_str();
  };
  app.add_option("--tokenizer", tokenizers,
                 "MODEL=FOLDER: that model's tokenizer.json, tokenizer_config.json and chat "
                 "template, as on a model hub; * is any other model; repeat for each");
  option("--tokenize-timeout-ms", timeout_ms,
         "to learn a prompt's tokens; then it is routed by load")
      ->check(CLI::Range(1, 86'400'000));
  option("--tokenize-min-body", min_body,
         "bodies of fewer bytes are not worth a match and go by load")
      ->check(CLI::Range(size_t{0}, size_t{1} << 30));
  option("--tokenize-cache-mib", cache_mib, "memory of the tokens of texts already seen")
      ->check(CLI::Range(size_t{1}, size_t{1} << 18));
  option("--parity-interval-s", parity_interval_s,
         "between two comparisons of our tokens with each engine's own; 0: never")
      ->check(CLI::Range(0, 86'400));
  app.add_flag("--no-text-match", no_text,
               "prompts whose tokens nobody knows are not matched by their text either");
}

Status TokenizeFlags::Interpret(ServiceOptions* out) const {
  PromptTokenizerOptions& o = out->tokenizer;
  for (const std::string& text : tokenizers) {
    Result<TokenizerConfig> config = TokenizerConfig::Parse(text);
    if (!config.ok()) return config.status().WithContext("--tokenizer");
    o.local.models.push_back(*std::move(config));
  }
  o.engine.deadline = o.local.deadline = milliseconds(timeout_ms);
  o.local.min_body_bytes = o.text_min_bytes = min_body;
  o.local.cache_bytes = cache_mib << 20;
  o.text = !no_text;
  out->parity.interval = seconds(parity_interval_s);
  return OkStatus();
}

}  // namespace ember::router
