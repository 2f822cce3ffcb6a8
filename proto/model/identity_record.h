// IdentityRecord: builds the canonical record of kv_namespace.h field by field.
// The tags below are the format: never reuse or renumber one.
#pragma once

#include <string_view>

#include "proto/base/bytes.h"
#include "proto/model/kv_layout.h"

namespace ember {

enum class IdentityTag : uint16_t {
  kEngine = 1,
  kEngineVersion = 2,
  kContextType = 3,
  kWeightsDigest = 4,
  kTokenizerDigest = 5,
  kAdapterDigest = 6,
  kTenant = 7,
  kSalt = 8,
  kTokensPerBlock = 16,
  kLayers = 17,
  kKvHeads = 18,
  kHeadSize = 19,
  kKeyType = 20,
  kValueType = 21,
  kOrder = 22,
  kCacheGroup = 23,
  kRank = 24,
  kRankCount = 25,
  kFirstExtra = 0x8000,
};

class IdentityRecord {
 public:
  void Put(IdentityTag tag, uint64_t value);
  void Put(IdentityTag tag, ByteSpan value);
  void Put(IdentityTag tag, std::string_view value) { Put(tag, AsBytes(value)); }
  void PutLayout(const KvLayout& layout);
  // The whole record; tags must have come in ascending order.
  Bytes Finish() const;

 private:
  void Begin(IdentityTag tag, uint8_t type, uint32_t length);

  Bytes fields_;
  uint16_t count_ = 0;
  uint16_t last_tag_ = 0;
};

}  // namespace ember
