#include "client/http/json_object.h"

#include <fmt/format.h>

#include <cmath>

#include "client/http/json_writer.h"

namespace ember::http {

JsonObject& JsonObject::AddRaw(std::string_view name, std::string_view json) {
  if (!fields_.empty()) fields_ += ",";
  AppendJsonString(&fields_, name);
  fields_ += ":";
  fields_ += json;
  return *this;
}

JsonObject& JsonObject::Add(std::string_view name, std::string_view text) {
  return AddRaw(name, JsonString(text));
}
JsonObject& JsonObject::Add(std::string_view name, double number) {
  return AddRaw(name, std::isfinite(number) ? fmt::format("{:.6g}", number) : "null");
}
JsonObject& JsonObject::Add(std::string_view name, uint64_t number) {
  return AddRaw(name, std::to_string(number));
}
JsonObject& JsonObject::Add(std::string_view name, bool value) {
  return AddRaw(name, value ? "true" : "false");
}

std::string JsonArray(const std::vector<std::string>& values) {
  return fmt::format("[{}]", fmt::join(values, ","));
}

}  // namespace ember::http
