#include "proto/wire/arena_offer.h"

#include "proto/base/checksum.h"

namespace ember::wire {
namespace {

constexpr uint32_t kOfferMagic = 0x41424d45;  // "EMBA"
constexpr uint16_t kFormat = 1;
constexpr size_t kChecksumBytes = 8;

}  // namespace

Bytes Encode(const ArenaOffer& offer) {
  Bytes out;
  ByteWriter w(&out);
  w.Put(kOfferMagic);
  w.Put(kFormat);
  w.Put(uint16_t{0});
  w.Put(offer.incarnation);
  w.Put(offer.shard);
  w.Put(offer.capacity);
  const uint64_t checksum = Xxh3Of64(out);
  w.Put(checksum);
  return out;
}

Result<ArenaOffer> DecodeArenaOffer(ByteSpan bytes) {
  if (bytes.size() != kArenaOfferBytes) return InvalidError("an arena offer of another length");
  ByteReader r(bytes);
  const auto magic = r.Get<uint32_t>();
  const auto format = r.Get<uint16_t>();
  const auto zero = r.Get<uint16_t>();
  ArenaOffer offer;
  offer.incarnation = r.Get<uint64_t>();
  offer.shard = r.Get<uint32_t>();
  offer.capacity = r.Get<uint64_t>();
  const auto checksum = r.Get<uint64_t>();
  if (magic != kOfferMagic || checksum != Xxh3Of64(bytes.first(bytes.size() - kChecksumBytes))) {
    return InvalidError("not an arena offer");
  }
  if (format != kFormat || zero != 0) {
    return MismatchError("an arena offer of format " + std::to_string(format));
  }
  return offer;
}

std::string ArenaSocketName(std::string_view node_id, uint32_t shard) {
  return "ember-" + std::string(node_id) + "-" + std::to_string(shard) + ".sock";
}

}  // namespace ember::wire
