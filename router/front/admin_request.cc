#include "router/front/admin_request.h"

#include <simdjson.h>

#include <string>
#include <vector>

namespace ember::router {
namespace {

constexpr size_t kMaxBytes = 64u << 10;
constexpr size_t kMaxFields = 32;

}  // namespace

Result<ReplicaConfig> ReadReplicaJson(std::string_view text) {
  if (text.size() > kMaxBytes) return InvalidError("a replica takes no 64 KiB");
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  if (const auto error = parser.parse(text.data(), text.size()).get(object)) {
    return InvalidError(std::string("the body is no JSON object: ") +
                        simdjson::error_message(error));
  }
  if (object.size() > kMaxFields) return InvalidError("too many fields");
  std::string_view id;
  std::vector<std::string> numbers;
  numbers.reserve(kMaxFields);  // fields refer to them
  std::vector<ReplicaConfig::Field> fields;
  for (const auto& [name, value] : object) {
    std::string_view word;
    if (value.is_number()) {
      numbers.push_back(simdjson::to_string(value));
      word = numbers.back();
    } else if (value.get(word) != simdjson::SUCCESS) {
      return InvalidError("field \"" + std::string(name.substr(0, 50)) +
                          "\" is neither text nor a number");
    }
    if (name == "id") {
      id = word;
    } else {
      fields.emplace_back(name, word);
    }
  }
  return ReplicaConfig::FromFields(id, fields);
}

}  // namespace ember::router
