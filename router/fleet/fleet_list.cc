#include "router/fleet/fleet_list.h"

#include <algorithm>
#include <set>
#include <string>

namespace ember::router {
namespace {

constexpr std::string_view kBlanks = " \t\r";

// The words of a line up to its comment.
std::vector<std::string_view> WordsOf(std::string_view line) {
  std::vector<std::string_view> words;
  for (;;) {
    const size_t begin = line.find_first_not_of(kBlanks);
    if (begin == line.npos || line[begin] == '#') return words;
    line.remove_prefix(begin);
    const size_t end = std::min(line.find_first_of(kBlanks), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

Result<ReplicaConfig> ReadLine(const std::vector<std::string_view>& words) {
  std::vector<ReplicaConfig::Field> fields;
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (equals == words[i].npos) {
      return InvalidError("expected NAME=VALUE after the id, field " + std::to_string(i));
    }
    fields.emplace_back(words[i].substr(0, equals), words[i].substr(equals + 1));
  }
  return ReplicaConfig::FromFields(words[0], fields);
}

}  // namespace

Result<std::vector<ReplicaConfig>> ParseFleetList(std::string_view text) {
  if (text.size() > kMaxFleetBytes) return InvalidError("larger than 1 MiB");
  if (text.find_first_not_of(" \t\r\n") == text.npos) return InvalidError("it is empty");
  std::vector<ReplicaConfig> replicas;
  std::set<std::string> ids;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const auto words = WordsOf(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty()) continue;
    const std::string where = "line " + std::to_string(number);
    Result<ReplicaConfig> replica = ReadLine(words);
    if (!replica.ok()) return replica.status().WithContext(where);
    if (!ids.insert(replica->id).second) {
      return InvalidError(where + ": \"" + replica->id + "\" is there twice");
    }
    replicas.push_back(*std::move(replica));
  }
  return replicas;
}

}  // namespace ember::router
