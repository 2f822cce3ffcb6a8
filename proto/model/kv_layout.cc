#include "proto/model/kv_layout.h"

#include "proto/base/checksum.h"
#include "proto/model/identity_record.h"

namespace ember {

Status Validate(const KvLayout& layout) {
  if (layout.tokens_per_block == 0 || layout.tokens_per_block > kMaxTokensPerBlock) {
    return InvalidError("layout: tokens_per_block must be 1.." +
                        std::to_string(kMaxTokensPerBlock));
  }
  if (layout.layers == 0 || layout.layers > kMaxLayers) {
    return InvalidError("layout: layers must be 1.." + std::to_string(kMaxLayers));
  }
  if (layout.rank_count == 0 || layout.rank >= layout.rank_count) {
    return InvalidError("layout: rank must be below rank_count");
  }
  return OkStatus();
}

LayoutDigest DigestOf(const KvLayout& layout) {
  IdentityRecord record;
  record.PutLayout(layout);
  return Xxh3Of(record.Finish());
}

}  // namespace ember
