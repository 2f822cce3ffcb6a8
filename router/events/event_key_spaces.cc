#include "router/events/event_key_spaces.h"

namespace ember::router {
namespace {

// Salts are as many as there are tenants; beyond this they are computed again, 2 µs each.
constexpr size_t kMaxKnown = 4096;

}  // namespace

EventKeySpaces::EventKeySpaces(RandomSource& random)
    : secret_(std::to_string(random.Next()) + "." + std::to_string(random.Next())),
      seed_(random.Next()) {}

KeySpace EventKeySpaces::Of(const EventKeyIdentity& identity) {
  const auto known = known_.find(identity);
  if (known != known_.end()) return known->second;
  KvNamespace ns;
  ns.engine = "events";
  ns.salt = identity.salt;
  ns.extra = {{"model", identity.model},
              {"adapter", identity.adapter},
              {"group", std::to_string(identity.group)},
              {"block_size", std::to_string(identity.block_size)},
              {"secret", secret_}};
  KeySpace space{RootOf(ns).id, seed_, identity.block_size};
  if (known_.size() >= kMaxKnown) known_.clear();
  known_.emplace(identity, space);
  return space;
}

}  // namespace ember::router
