// Headers: the header fields of one HTTP message, all kept, in order; names compare without case.
// A plain value of one owner; any one thread.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace ember::http {

// ASCII comparison without case.
bool EqualNoCase(std::string_view a, std::string_view b);

class Headers {
 public:
  struct Field {
    std::string name;
    std::string value;
  };

  Headers() = default;
  Headers(std::initializer_list<Field> fields) : fields_(fields) {}

  // The first value under `name`, or "" (see Has).
  std::string_view Get(std::string_view name) const;
  bool Has(std::string_view name) const;
  // True when `token` is in the comma-separated list that all values under `name` make together.
  bool HasToken(std::string_view name, std::string_view token) const;
  void Add(std::string name, std::string value);
  void Reserve(size_t fields) { fields_.reserve(fields); }
  // Replaces every field of that name with one, at the place of the first.
  void Set(std::string_view name, std::string value);
  void Remove(std::string_view name);
  // Removes what belongs to one connection only (RFC 9110, 7.6.1): Connection and all it names,
  // Keep-Alive, Proxy-*, TE, Trailer, Transfer-Encoding, Upgrade.
  void RemoveHopByHop();
  // "name: value\r\n" for each field; a field that could break the framing (control characters, an
  // empty or non-token name) is left out.
  void AppendTo(std::string* out) const;

  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }
  size_t size() const { return fields_.size(); }

 private:
  std::vector<Field> fields_;
};

}  // namespace ember::http
