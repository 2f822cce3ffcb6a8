#include "client/cluster/placement.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>

#include "proto/base/checksum.h"

namespace ember::cluster {
namespace {

struct Candidate {
  double score;
  size_t index;
};

double Score(uint64_t hash, uint32_t weight) {
  // The middle of one of 2^53 equal steps: never 0 or 1, whose logarithms have no use here.
  const double fraction = (static_cast<double>(hash >> 11) + 0.5) * 0x1.0p-53;
  return -static_cast<double>(weight) / std::log(fraction);
}

std::vector<Candidate> Ranked(const View& view, const NamespaceId& ns, const BlockHash& placement) {
  Bytes message;
  ByteWriter writer(&message);
  writer.PutRaw(ns.bytes);
  writer.PutRaw(placement.bytes);
  const size_t prefix = message.size();
  std::vector<Candidate> candidates;
  candidates.reserve(view.members.size());
  for (size_t i = 0; i < view.members.size(); ++i) {
    const wire::Member& member = view.members[i];
    if (member.weight == 0) continue;
    message.resize(prefix);
    writer.PutRaw(AsBytes(member.id));
    candidates.push_back({Score(Xxh3Of64(message), member.weight), i});
  }
  std::ranges::stable_sort(candidates, std::greater<>(), &Candidate::score);
  return candidates;
}

}  // namespace

std::vector<size_t> Owners(const View& view, const NamespaceId& ns, const BlockHash& placement,
                           size_t copies) {
  std::vector<Candidate> left = Ranked(view, ns, placement);
  std::vector<size_t> owners;
  std::set<std::string_view> zones;
  while (owners.size() < copies && !left.empty()) {
    auto next = std::ranges::find_if(left, [&](const Candidate& candidate) {
      return !zones.contains(view.members[candidate.index].zone);
    });
    if (next == left.end()) next = left.begin();  // every zone has its owner
    zones.insert(view.members[next->index].zone);
    owners.push_back(next->index);
    left.erase(next);
  }
  return owners;
}

size_t ShardOf(const NamespaceId& ns, const BlockHash& placement, size_t shards) {
  std::array<std::byte, sizeof ns.bytes + sizeof placement.bytes> name;
  std::ranges::copy(placement.bytes, std::ranges::copy(ns.bytes, name.begin()).out);
  const uint64_t high = Xxh3Of64(name) >> 32;
  return static_cast<size_t>(high * shards >> 32);
}

}  // namespace ember::cluster
