#include "client/agent/request_body.h"

#include <simdjson.h>

#include <array>
#include <limits>

namespace ember::agent {
namespace {
namespace dom = simdjson::dom;

struct BypassField {
  std::string_view name;
  std::string_view reason;
};
// Fields that make the slot's content something else than the plain prefix.
constexpr std::array kBypassFields = {
    BypassField{"lora", "adapter"},
    BypassField{"n_cache_reuse", "shifted_cache"},
    BypassField{"n_keep", "shifted_cache"},
    BypassField{"multimodal_data", "media"},
};

constexpr int64_t kMaxId = std::numeric_limits<int32_t>::max();  // as the engine has them

bool HasMedia(dom::element messages) {
  dom::array list;
  if (messages.get(list) != simdjson::SUCCESS) return false;
  for (dom::element message : list) {
    dom::array parts;
    if (message["content"].get(parts) != simdjson::SUCCESS) continue;
    for (dom::element part : parts) {
      std::string_view type;
      if (part["type"].get(type) != simdjson::SUCCESS || type != "text") return true;
    }
  }
  return false;
}

// A text, ids, or a list of one of these.
bool ReadPrompt(dom::element value, RequestBody* out) {
  dom::array list;
  dom::element only;
  if (value.get(list) == simdjson::SUCCESS && list.size() == 1 &&
      list.at(0).get(only) == simdjson::SUCCESS && !only.is_int64()) {
    value = only;
  }
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) {
    out->prompt = text;
    return true;
  }
  if (value.get(list) != simdjson::SUCCESS) return false;
  for (dom::element item : list) {
    int64_t id = 0;
    if (item.get(id) != simdjson::SUCCESS || id < 0 || id > kMaxId) return false;
    out->ids.push_back(static_cast<TokenId>(id));
  }
  return !out->ids.empty();
}

void ReadField(std::string_view name, dom::element value, RequestBody* out) {
  for (const BypassField& field : kBypassFields) {
    if (name == field.name && !value.is_null()) out->bypass = field.reason;
  }
  if (name == "n" || name == "n_cmpl") {
    int64_t n = 0;
    if (value.get(n) != simdjson::SUCCESS || n != 1) {
      if (!value.is_null()) out->several = true;
    }
  } else if (name == "stream") {
    out->stream = value.is_bool() && bool(value);
  } else if (name == "cache_prompt") {
    out->cache_prompt = !value.is_bool() || bool(value);
  } else if (name == "prompt" && out->kind == CompletionKind::kText) {
    if (!ReadPrompt(value, out)) out->bypass = "prompt_form";
  } else if (name == "messages" && out->kind == CompletionKind::kChat && HasMedia(value)) {
    out->bypass = "media";
  }
}

}  // namespace

std::optional<CompletionKind> CompletionKindOf(std::string_view path) {
  if (path == "/v1/chat/completions") return CompletionKind::kChat;
  if (path == "/v1/completions" || path == "/completion") return CompletionKind::kText;
  return std::nullopt;
}

Result<RequestBody> ReadRequestBody(CompletionKind kind, std::string_view body) {
  dom::parser parser;
  dom::element root;
  if (const auto error = parser.parse(body.data(), body.size()).get(root)) {
    return InvalidError(std::string("the body is not valid JSON: ") +
                        simdjson::error_message(error));
  }
  dom::object object;
  if (root.get(object) != simdjson::SUCCESS) return InvalidError("the body must be a JSON object");
  RequestBody out;
  out.kind = kind;
  bool has_prompt = false;
  // In order, so that of two fields of one name the last one counts, as in the engine.
  for (dom::key_value_pair field : object) {
    if (field.key == (kind == CompletionKind::kChat ? "messages" : "prompt")) {
      if (has_prompt) out.bypass = "repeated_field";
      has_prompt = true;
    }
    ReadField(field.key, field.value, &out);
  }
  if (!has_prompt) out.bypass = "no_prompt";
  return out;
}

std::string AddSlot(std::string_view body, uint32_t slot, std::optional<bool> cache_prompt) {
  const size_t brace = body.rfind('}');
  EMBER_CHECK(brace != std::string_view::npos, "only JSON objects get a slot");
  const size_t last = body.find_last_not_of(" \t\r\n", brace - 1);
  std::string out;
  out.reserve(body.size() + 48);
  out += body.substr(0, brace);
  if (body[last] != '{') out += ',';
  out += "\"id_slot\":" + std::to_string(slot);
  if (cache_prompt) out += *cache_prompt ? ",\"cache_prompt\":true" : ",\"cache_prompt\":false";
  out += body.substr(brace);
  return out;
}

}  // namespace ember::agent
