#include "router/front/response_id.h"

#include <cstring>
#include <utility>

namespace ember::router {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

// Where the string begins that belongs to the first key at or after `from`; npos: there is none.
size_t ValueAt(std::string_view json, std::string_view quoted_key, size_t from) {
  while (from < json.size()) {
    const void* found =
        memmem(json.data() + from, json.size() - from, quoted_key.data(), quoted_key.size());
    if (found == nullptr) return json.npos;
    from = static_cast<size_t>(static_cast<const char*>(found) - json.data()) + quoted_key.size();
    const size_t colon = json.find_first_not_of(kBlanks, from);
    if (colon == json.npos || json[colon] != ':') continue;
    const size_t quote = json.find_first_not_of(kBlanks, colon + 1);
    if (quote != json.npos && json[quote] == '"') return quote + 1;
  }
  return json.npos;
}

}  // namespace

std::string_view StringField(std::string_view json, std::string_view quoted_key) {
  const size_t at = ValueAt(json, quoted_key, 0);
  if (at == json.npos) return "";
  const size_t end = json.find('"', at);
  return end == json.npos ? "" : json.substr(at, end - at);
}

std::string ResponseIdFinder::Feed(std::string_view piece) {
  if (over_) return "";
  seen_.append(piece.substr(0, kMaxBytes - seen_.size()));
  for (size_t at = 0; (at = ValueAt(seen_, "\"id\"", at)) != std::string::npos;) {
    const size_t end = seen_.find('"', at);
    if (end == std::string::npos) break;
    if (!std::string_view(seen_).substr(at).starts_with("resp_")) continue;
    over_ = true;
    return std::exchange(seen_, {}).substr(at, end - at);
  }
  over_ = seen_.size() >= kMaxBytes;
  if (over_) seen_ = {};
  return "";
}

}  // namespace ember::router
