#include "client/cli/fleet_view.h"

#include <fmt/format.h>
#include <simdjson.h>

#include "client/cli/text.h"

namespace ember::cli {
namespace {

using simdjson::dom::element;

std::string WordOf(element object, std::string_view name) {
  std::string_view text;
  return object[name].get(text) == simdjson::SUCCESS ? std::string(text) : "";
}

}  // namespace

Result<std::string> FleetText(std::string_view json) {
  simdjson::dom::parser parser;
  element root;
  simdjson::dom::array replicas;
  if (parser.parse(json.data(), json.size()).get(root) != simdjson::SUCCESS ||
      root["replicas"].get(replicas) != simdjson::SUCCESS) {
    return InvalidError("the router's answer is not its list of replicas");
  }
  TextTable table({"REPLICA", "STATE", "IN FLIGHT", "SOURCE", "HTTP", "WHY"});
  for (element r : replicas) {
    uint64_t in_flight = 0;
    (void)r["in_flight"].get(in_flight);
    table.Add({WordOf(r, "id"), WordOf(r, "state"), CountText(in_flight), WordOf(r, "source"),
               WordOf(r, "http"), WordOf(r, "why")});
  }
  std::string out = table.ToString();
  simdjson::dom::object troubles;
  if (root["troubles"].get(troubles) != simdjson::SUCCESS) return out;
  for (const auto& [source, what] : troubles) {
    std::string_view text;
    if (what.get(text) == simdjson::SUCCESS) {
      out += fmt::format("from {}: {}\n", source, text);
    }
  }
  return out;
}

}  // namespace ember::cli
