#include "client/http/headers.h"

#include <algorithm>
#include <array>

namespace ember::http {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

std::string Lowered(std::string_view s) {
  std::string out(s);
  std::transform(out.begin(), out.end(), out.begin(), Lower);
  return out;
}

std::string_view Trim(std::string_view s) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!s.empty() && blank(s.front())) s.remove_prefix(1);
  while (!s.empty() && blank(s.back())) s.remove_suffix(1);
  return s;
}

// Calls `visit` with each non-empty element of a comma-separated list.
template <typename Visit>
void ForEachToken(std::string_view list, Visit visit) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    const std::string_view token = Trim(list.substr(0, comma));
    if (!token.empty()) visit(token);
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
}

constexpr std::array<bool, 256> kTokenChars = [] {
  std::array<bool, 256> is{};
  for (const char c :
       std::string_view("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "!#$%&'*+-.^_`|~")) {
    is[static_cast<unsigned char>(c)] = true;
  }
  return is;
}();

bool IsTokenChar(char c) { return kTokenChars[static_cast<unsigned char>(c)]; }

bool IsValueChar(char c) {
  return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F);
}

}  // namespace

bool EqualNoCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](char x, char y) { return Lower(x) == Lower(y); });
}

std::string_view Headers::Get(std::string_view name) const {
  for (const Field& f : fields_) {
    if (EqualNoCase(f.name, name)) return f.value;
  }
  return "";
}

bool Headers::Has(std::string_view name) const {
  return std::any_of(fields_.begin(), fields_.end(),
                     [&](const Field& f) { return EqualNoCase(f.name, name); });
}

bool Headers::HasToken(std::string_view name, std::string_view token) const {
  bool found = false;
  for (const Field& f : fields_) {
    if (!EqualNoCase(f.name, name)) continue;
    ForEachToken(f.value, [&](std::string_view t) { found |= EqualNoCase(t, token); });
  }
  return found;
}

void Headers::Add(std::string name, std::string value) {
  fields_.push_back({std::move(name), std::move(value)});
}

void Headers::Set(std::string_view name, std::string value) {
  const auto same = [&](const Field& f) { return EqualNoCase(f.name, name); };
  const auto first = std::find_if(fields_.begin(), fields_.end(), same);
  if (first == fields_.end()) {
    Add(std::string(name), std::move(value));
    return;
  }
  first->value = std::move(value);
  fields_.erase(std::remove_if(first + 1, fields_.end(), same), fields_.end());
}

void Headers::Remove(std::string_view name) {
  std::erase_if(fields_, [&](const Field& f) { return EqualNoCase(f.name, name); });
}

void Headers::RemoveHopByHop() {
  static constexpr std::string_view kAlways[] = {"Connection",
                                                 "Keep-Alive",
                                                 "Proxy-Connection",
                                                 "Proxy-Authenticate",
                                                 "Proxy-Authorization",
                                                 "TE",
                                                 "Trailer",
                                                 "Transfer-Encoding",
                                                 "Upgrade"};
  std::vector<std::string> named;
  for (const Field& f : fields_) {
    if (!EqualNoCase(f.name, "Connection")) continue;
    ForEachToken(f.value, [&](std::string_view t) {
      if (!EqualNoCase(t, "close") && !EqualNoCase(t, "keep-alive")) named.push_back(Lowered(t));
    });
  }
  // A head may name thousands, and have as many.
  std::sort(named.begin(), named.end());
  std::erase_if(fields_, [&](const Field& f) {
    const auto same = [&](std::string_view name) { return EqualNoCase(f.name, name); };
    return std::any_of(std::begin(kAlways), std::end(kAlways), same) ||
           (!named.empty() && std::binary_search(named.begin(), named.end(), Lowered(f.name)));
  });
}

void Headers::AppendTo(std::string* out) const {
  for (const Field& f : fields_) {
    if (f.name.empty() || !std::all_of(f.name.begin(), f.name.end(), IsTokenChar)) continue;
    if (!std::all_of(f.value.begin(), f.value.end(), IsValueChar)) continue;
    out->append(f.name).append(": ").append(f.value).append("\r\n");
  }
}

}  // namespace ember::http
