#include "proto/model/identity_record.h"

namespace ember {
namespace {
constexpr std::string_view kMagic("EMBERKV\0", 8);
constexpr uint16_t kFormat = 1;
constexpr uint8_t kTypeInteger = 1;
constexpr uint8_t kTypeBytes = 2;
}  // namespace

void IdentityRecord::Begin(IdentityTag tag, uint8_t type, uint32_t length) {
  const auto number = static_cast<uint16_t>(tag);
  EMBER_CHECK(number > last_tag_, "identity fields ascend, so that a record has one form");
  last_tag_ = number;
  ++count_;
  ByteWriter w(&fields_);
  w.Put(number);
  w.Put(type);
  w.Put(length);
}

void IdentityRecord::Put(IdentityTag tag, uint64_t value) {
  Begin(tag, kTypeInteger, sizeof value);
  ByteWriter(&fields_).Put(value);
}

void IdentityRecord::Put(IdentityTag tag, ByteSpan value) {
  Begin(tag, kTypeBytes, static_cast<uint32_t>(value.size()));
  ByteWriter(&fields_).PutRaw(value);
}

void IdentityRecord::PutLayout(const KvLayout& layout) {
  Put(IdentityTag::kTokensPerBlock, uint64_t{layout.tokens_per_block});
  Put(IdentityTag::kLayers, uint64_t{layout.layers});
  Put(IdentityTag::kKvHeads, uint64_t{layout.kv_heads});
  Put(IdentityTag::kHeadSize, uint64_t{layout.head_size});
  Put(IdentityTag::kKeyType, layout.key_type);
  Put(IdentityTag::kValueType, layout.value_type);
  Put(IdentityTag::kOrder, layout.order);
  Put(IdentityTag::kCacheGroup, uint64_t{static_cast<uint8_t>(layout.group)});
  Put(IdentityTag::kRank, uint64_t{layout.rank});
  Put(IdentityTag::kRankCount, uint64_t{layout.rank_count});
}

Bytes IdentityRecord::Finish() const {
  Bytes out;
  ByteWriter w(&out);
  w.PutRaw(AsBytes(kMagic));
  w.Put(kFormat);
  w.Put(count_);
  w.PutRaw(fields_);
  return out;
}

}  // namespace ember
