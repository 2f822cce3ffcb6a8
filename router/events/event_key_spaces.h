// EventKeySpaces: the key spaces in which engines that only publish KV events hold blocks. The
// router names their blocks itself, from the tokens in the events, under a secret of this process:
// so neither an engine's hash settings nor a crafted prompt can make two blocks one. What one
// engine stores under a model, adapter, salt, cache group and block size can be found in exactly
// that space.
//
// All of them share one seed, so that a block's hash follows from its parent's alone. One thread.
#pragma once

#include <map>
#include <string>

#include "proto/base/random.h"
#include "proto/model/key_space.h"

namespace ember::router {

struct EventKeyIdentity {
  std::string model;
  std::string adapter;  // by name, for events know no more; empty: none
  std::string salt;
  uint32_t group = 0;
  uint32_t block_size = 0;  // tokens; not 0
  auto operator<=>(const EventKeyIdentity&) const = default;
};

class EventKeySpaces {
 public:
  explicit EventKeySpaces(RandomSource& random);

  KeySpace Of(const EventKeyIdentity& identity);
  uint64_t seed() const { return seed_; }

 private:
  const std::string secret_;
  const uint64_t seed_;
  std::map<EventKeyIdentity, KeySpace> known_;  // bounded; a cache
};

}  // namespace ember::router
