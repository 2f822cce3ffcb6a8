#include "client/agent/engine_reply.h"

#include <simdjson.h>

namespace ember::agent {
namespace {
namespace dom = simdjson::dom;

constexpr size_t kMaxReplyTokens = 16u << 20;

// A parsed document and the parser that owns its memory.
struct Document {
  dom::parser parser;
  dom::element root;
  Status Parse(std::string_view json) {
    if (parser.parse(json.data(), json.size()).get(root) != simdjson::SUCCESS) {
      return CorruptError("engine: the reply is not JSON");
    }
    return OkStatus();
  }
};

Status Missing(std::string_view field) {
  return MismatchError("engine: the reply has no usable \"" + std::string(field) + "\"");
}

template <typename T>
bool Read(const dom::element& object, std::string_view field, T* out) {
  return object[field].get(*out) == simdjson::SUCCESS;
}

bool Read(const dom::element& object, std::string_view field, std::string* out) {
  std::string_view text;
  if (!Read(object, field, &text)) return false;
  *out = text;
  return true;
}

}  // namespace

Result<EngineProps> ReadProps(std::string_view json) {
  Document doc;
  EMBER_RETURN_IF_ERROR(doc.Parse(json));
  EngineProps out;
  dom::element settings;
  uint64_t number = 0;
  if (!Read(doc.root, "build_info", &out.build)) return Missing("build_info");
  if (!Read(doc.root, "model_path", &out.model_path)) return Missing("model_path");
  Read(doc.root, "model_alias", &out.alias);
  if (!Read(doc.root, "total_slots", &number) || number == 0 || number > 1024) {
    return Missing("total_slots");
  }
  out.slots = static_cast<uint32_t>(number);
  if (!Read(doc.root, "default_generation_settings", &settings) ||
      !Read(settings, "n_ctx", &number) || number == 0 || number > UINT32_MAX) {
    return Missing("default_generation_settings.n_ctx");
  }
  out.context_tokens = static_cast<uint32_t>(number);
  dom::object modalities;
  if (doc.root["modalities"].get(modalities) == simdjson::SUCCESS) {
    for (dom::key_value_pair kind : modalities) {
      bool on = false;
      if (kind.value.get(on) == simdjson::SUCCESS && on) out.has_media = true;
    }
  }
  return out;
}

Result<uint64_t> ReadModelBytes(std::string_view json) {
  Document doc;
  EMBER_RETURN_IF_ERROR(doc.Parse(json));
  uint64_t bytes = 0;
  if (doc.root.at_pointer("/data/0/meta/size").get(bytes) != simdjson::SUCCESS) {
    return Missing("data[0].meta.size");
  }
  return bytes;
}

Result<bool> ReadHasAdapters(std::string_view json) {
  Document doc;
  EMBER_RETURN_IF_ERROR(doc.Parse(json));
  dom::array adapters;
  if (doc.root.get(adapters) != simdjson::SUCCESS) return Missing("adapters");
  return adapters.size() > 0;
}

Result<std::vector<TokenId>> ReadTokens(std::string_view json) {
  Document doc;
  EMBER_RETURN_IF_ERROR(doc.Parse(json));
  dom::array tokens;
  if (doc.root["tokens"].get(tokens) != simdjson::SUCCESS) return Missing("tokens");
  std::vector<TokenId> out;
  for (dom::element token : tokens) {
    uint64_t id = 0;
    if (token.get(id) != simdjson::SUCCESS || id > INT32_MAX || out.size() >= kMaxReplyTokens) {
      return Missing("tokens");
    }
    out.push_back(static_cast<TokenId>(id));
  }
  return out;
}

Result<std::string> ReadPrompt(std::string_view json) {
  Document doc;
  EMBER_RETURN_IF_ERROR(doc.Parse(json));
  std::string prompt;
  if (!Read(doc.root, "prompt", &prompt)) return Missing("prompt");
  return prompt;
}

Result<SlotAction> ReadSlotAction(std::string_view json) {
  Document doc;
  EMBER_RETURN_IF_ERROR(doc.Parse(json));
  SlotAction out;
  uint64_t tokens = 0;
  if (!(Read(doc.root, "n_saved", &tokens) && Read(doc.root, "n_written", &out.bytes)) &&
      !(Read(doc.root, "n_restored", &tokens) && Read(doc.root, "n_read", &out.bytes))) {
    return Missing("n_saved or n_restored");
  }
  if (tokens > UINT32_MAX) return Missing("n_saved or n_restored");
  out.tokens = static_cast<uint32_t>(tokens);
  return out;
}

std::optional<EngineTimings> ReadTimings(std::string_view json) {
  // Most events of a stream have none, and need not be parsed.
  if (json.find("\"timings\"") == std::string_view::npos) return std::nullopt;
  Document doc;
  dom::element timings;
  if (!doc.Parse(json).ok() || !Read(doc.root, "timings", &timings)) return std::nullopt;
  EngineTimings out;
  if (!Read(timings, "cache_n", &out.cached_tokens) ||
      !Read(timings, "prompt_n", &out.computed_tokens) ||
      !Read(timings, "prompt_ms", &out.prompt_ms)) {
    return std::nullopt;
  }
  Read(timings, "predicted_n", &out.predicted_tokens);
  return out;
}

std::string ReadErrorMessage(std::string_view json) {
  Document doc;
  std::string message;
  dom::element error;
  if (doc.Parse(json).ok() && Read(doc.root, "error", &error) && Read(error, "message", &message)) {
    return message;
  }
  return std::string(json.substr(0, 200));
}

}  // namespace ember::agent
