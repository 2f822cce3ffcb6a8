#include "router/fleet/membership.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace ember::router {

Status Membership::Replace(const std::string& source, std::vector<ReplicaConfig> wanted) {
  std::map<std::string, ReplicaConfig> by_id;
  for (ReplicaConfig& config : wanted) {
    const std::string id = config.id;
    if (!by_id.emplace(id, std::move(config)).second) {
      return InvalidError("replica \"" + id + "\" is there twice");
    }
  }
  Status taken;
  std::erase_if(by_id, [&](const auto& named) {
    const std::string owner = SourceOf(named.first);
    if (owner.empty() || owner == source) return false;
    taken = MismatchError("replica \"" + named.first + "\" is known from another source (" + owner +
                          "), which keeps it; all else is taken");
    return true;
  });
  std::erase_if(sources_, [&](const auto& known) {
    const auto& [id, owner] = known;
    if (owner != source) return false;
    const auto same = by_id.find(id);
    const ReplicaConfig& now = replicas_.Find(id)->config;
    if (same != by_id.end() && now.MayBecome(same->second)) {
      if (now != same->second) {
        replicas_.Tune(same->second);
        spdlog::info("replica {}: its key, weight or max_concurrency is another now", id);
      }
      by_id.erase(same);
      return false;
    }
    const Status removed = replicas_.Remove(id);
    EMBER_CHECK(removed.ok(), "a known replica is a member");
    return true;
  });
  for (auto& [id, config] : by_id) {
    const Status added = Add(source, std::move(config));
    if (!added.ok()) return added.WithContext("replica \"" + id + "\" and more are left out");
  }
  return taken;
}

Status Membership::Add(const std::string& source, ReplicaConfig config) {
  const std::string id = config.id;
  EMBER_RETURN_IF_ERROR(replicas_.Add(std::move(config)));
  sources_[id] = source;
  return OkStatus();
}

Status Membership::Remove(const std::string& id) {
  const std::string source = SourceOf(id);
  if (source == kFileSource || source.starts_with(kDnsSource)) {
    return MismatchError("replica \"" + id + "\" comes from " + source +
                         ": take it out there, or drain it here");
  }
  EMBER_RETURN_IF_ERROR(replicas_.Remove(id));
  sources_.erase(id);
  return OkStatus();
}

void Membership::SetTrouble(const std::string& source, const Status& status) {
  heard_of_.insert(source);
  if (status.ok()) {
    if (troubles_.erase(source) > 0) spdlog::info("fleet from {}: in order again", source);
    return;
  }
  std::string what(status.message());
  if (const auto known = troubles_.find(source); known != troubles_.end() && known->second == what)
    return;
  const bool partly =
      status.code() == StatusCode::kMismatch || status.code() == StatusCode::kNoSpace;
  spdlog::error("fleet from {}: {}{}", source, what, partly ? "" : "; it stays as it was");
  troubles_[source] = std::move(what);
}

std::map<std::string, bool> Membership::SourcesInTrouble() const {
  std::map<std::string, bool> sources;
  for (const std::string& source : heard_of_) sources[source] = troubles_.contains(source);
  return sources;
}

std::string Membership::SourceOf(const std::string& id) const {
  const auto it = sources_.find(id);
  return it == sources_.end() ? "" : it->second;
}

}  // namespace ember::router
