#include "client/cluster/view.h"

#include <algorithm>
#include <set>
#include <string>

#include "client/io/stream.h"
#include "proto/wire/limits.h"

namespace ember::cluster {
namespace {

std::string Quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

// Ids stand in logs, metric labels and this very syntax, so they stay simple.
bool IsPlainId(std::string_view id) {
  return !id.empty() && id.size() <= wire::kMaxNameBytes && std::ranges::all_of(id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

Result<wire::Member> ParseMember(std::string_view entry) {
  const size_t equals = entry.find('=');
  if (equals == std::string_view::npos) {
    return InvalidError("peer " + Quoted(entry) + ": want id=host:port");
  }
  wire::Member member;
  member.id = entry.substr(0, equals);
  if (!IsPlainId(member.id)) {
    return InvalidError("peer " + Quoted(entry) + ": an id is letters, digits, '-', '_' or '.'");
  }
  Result<io::Endpoint> endpoint = io::Endpoint::Parse(entry.substr(equals + 1));
  if (!endpoint.ok()) return endpoint.status().WithContext("peer " + Quoted(entry));
  if (endpoint->port == 0) return InvalidError("peer " + Quoted(entry) + ": port 0");
  member.host = endpoint->host;
  member.port = endpoint->port;
  return member;
}

}  // namespace

Result<View> CheckedView(uint64_t number, std::vector<wire::Member> members) {
  if (members.empty()) return InvalidError("a view without members");
  if (members.size() > wire::kMaxMembers) return InvalidError("a view with too many members");
  std::ranges::sort(members, {}, &wire::Member::id);
  std::set<std::pair<std::string, uint16_t>> addresses;
  for (size_t i = 0; i < members.size(); ++i) {
    const wire::Member& member = members[i];
    const std::string address = io::Endpoint{member.host, member.port}.ToString();
    if (!IsPlainId(member.id)) return InvalidError("member id " + Quoted(member.id));
    if (member.host.empty() || member.port == 0) {
      return InvalidError("member " + member.id + " has no address");
    }
    if (i > 0 && members[i - 1].id == member.id) {
      return InvalidError("peer id " + Quoted(member.id) + " stands twice in the list");
    }
    if (!addresses.emplace(member.host, member.port).second) {
      return InvalidError("peer address " + address + " stands twice in the list");
    }
  }
  return View{number, std::move(members)};
}

Result<View> ParseStaticView(std::string_view text) {
  if (text.empty()) return InvalidError("empty list of peers: want id=host:port,id=host:port");
  std::vector<wire::Member> members;
  for (;;) {
    const size_t comma = text.find(',');
    Result<wire::Member> member = ParseMember(text.substr(0, comma));
    if (!member.ok()) return member.status();
    members.push_back(*std::move(member));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return CheckedView(1, std::move(members));
}

}  // namespace ember::cluster
