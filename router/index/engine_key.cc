#include "router/index/engine_key.h"

#include <cstring>

#include "proto/base/checksum.h"

namespace ember::router {
namespace {

enum class NameForm : uint8_t { kUnsigned = 1, kNegative = 2, kBytes = 3 };

EngineKey FoldName(NameForm form, uint32_t group, ByteSpan name, uint64_t seed) {
  // The form and group are part of the seed's, not the name's, bytes: names of one width are then
  // hashed in one short call, whatever their length.
  std::array<std::byte, 5> tag;
  tag[0] = static_cast<std::byte>(form);
  std::memcpy(tag.data() + 1, &group, sizeof group);
  uint64_t own_seed;
  std::memcpy(&own_seed, Xxh3Of(tag, seed).data(), sizeof own_seed);
  uint64_t key;
  std::memcpy(&key, Xxh3Of(name, own_seed).data(), sizeof key);
  return EngineKey{key};
}

}  // namespace

EngineKey EngineKeyFold::OfSigned(int64_t name, uint32_t group) const {
  if (name >= 0) return OfUnsigned(static_cast<uint64_t>(name), group);
  return FoldName(NameForm::kNegative, group, std::as_bytes(std::span(&name, 1)), seed_);
}

EngineKey EngineKeyFold::OfUnsigned(uint64_t name, uint32_t group) const {
  return FoldName(NameForm::kUnsigned, group, std::as_bytes(std::span(&name, 1)), seed_);
}

EngineKey EngineKeyFold::OfBytes(ByteSpan name, uint32_t group) const {
  return FoldName(NameForm::kBytes, group, name, seed_);
}

}  // namespace ember::router
