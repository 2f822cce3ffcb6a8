#include "router/front/model_pages.h"

#include "client/http/json_object.h"

namespace ember::router {
namespace {

std::string CardOf(const std::string& name, const ModelDirectory::Entry& entry) {
  if (!entry.json.empty()) return entry.json;
  http::JsonObject card;
  card.Add("id", name).Add("object", "model").Add("created", 0u).Add("owned_by", "ember");
  if (!entry.base.empty()) card.Add("parent", entry.base);
  return card.ToString();
}

}  // namespace

std::string ModelListJson(const ModelDirectory& models) {
  std::vector<std::string> cards;
  for (const std::string_view name : models.InOrder()) cards.push_back(ModelJson(models, name));
  return http::JsonObject().Add("object", "list").AddRaw("data", http::JsonArray(cards)).ToString();
}

std::string ModelJson(const ModelDirectory& models, std::string_view name) {
  const auto entry = models.entries().find(name);
  return entry == models.entries().end() ? "" : CardOf(entry->first, entry->second);
}

}  // namespace ember::router
