#include "router/fleet/engine_models.h"

#include <simdjson.h>

#include <algorithm>
#include <string>

namespace ember::router {
namespace {

using simdjson::dom::element;

constexpr size_t kMaxModels = 1024;
constexpr size_t kMaxName = 256;
// Of what is told of one model; more is not passed on.
constexpr size_t kMaxCard = 4096;

std::string_view TextOf(const element& object, const char* member) {
  std::string_view text;
  return object[member].get(text) == simdjson::SUCCESS ? text : std::string_view();
}

// These answer a request whatever model it names.
bool AnswersToAnyName(std::string_view owner) { return owner == "llamacpp" || owner == "sglang"; }

}  // namespace

std::optional<ModelList> ReadEngineModels(std::string_view text) {
  simdjson::dom::parser parser;
  simdjson::dom::array data;
  if (parser.parse(text.data(), text.size())["data"].get(data) != simdjson::SUCCESS) return {};
  ModelList list{.models = {}, .more = TakesMore::kNothing};
  for (const element model : data) {
    if (list.models.size() == kMaxModels) break;
    const std::string_view name = TextOf(model, "id"), parent = TextOf(model, "parent");
    if (name.empty() || name.size() > kMaxName || parent.size() > kMaxName) continue;
    const std::string_view owner = TextOf(model, "owned_by");
    if (AnswersToAnyName(owner)) list.more = TakesMore::kUnlisted;
    if (owner == "sglang") list.adapters_by_colon = true;
    std::string card = simdjson::minify(model);
    if (card.size() > kMaxCard) card.clear();
    list.models.push_back({.name = std::string(name),
                           .base = parent == name ? "" : std::string(parent),
                           .json = std::move(card)});
  }
  if (list.models.empty()) return {};
  return list;
}

}  // namespace ember::router
