// JsonObject: one JSON object as text, field by field. A plain value of one thread.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ember::http {

// Fields in the order of their adding.
class JsonObject {
 public:
  JsonObject& Add(std::string_view name, std::string_view text);
  JsonObject& Add(std::string_view name, const char* text) {
    return Add(name, std::string_view(text));
  }
  JsonObject& Add(std::string_view name, double number);  // six digits; not finite: null
  JsonObject& Add(std::string_view name, uint64_t number);
  JsonObject& Add(std::string_view name, bool value);
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool> && !std::same_as<T, uint64_t>)
  JsonObject& Add(std::string_view name, T number) {
    return Add(name, uint64_t{number});
  }
  // `json` as it is.
  JsonObject& AddRaw(std::string_view name, std::string_view json);
  std::string ToString() const { return "{" + fields_ + "}"; }

 private:
  std::string fields_;
};

std::string JsonArray(const std::vector<std::string>& values);

}  // namespace ember::http
