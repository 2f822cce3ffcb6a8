// Oracle: chains of segments whose payload is a function of their key, so that every reader can
// tell right bytes from wrong ones without having seen the writer.
#pragma once

#include <string>
#include <vector>

#include "client/store_client/store_client.h"

namespace ember::testing {

class Oracle {
 public:
  // `segments` segments of one chain; `seed` tells chains apart, `salt` namespaces.
  Oracle(uint32_t seed, size_t segments, size_t payload_bytes, const std::string& salt = "");

  const std::vector<SegmentRef>& refs() const { return refs_; }
  size_t size() const { return refs_.size(); }
  const LayoutDigest& layout() const { return layout_; }
  const NamespaceId& ns() const { return ns_; }
  std::span<const TokenId> tokens(size_t i) const;
  static Bytes Payload(const BlockKey& key, size_t bytes);
  size_t payload_bytes() const { return payload_bytes_; }

  // Puts all of it; the outcomes.
  std::vector<PutOutcome> Put(StoreClient& client, Duration timeout = seconds(10),
                              const PutOptions& options = {}) const;

  // A load of all of it into buffers of its own, and the check of what arrived.
  struct Load {
    std::vector<Bytes> buffers;
    GetResult result;
    // Arrived segments whose bytes or header are not those that were put.
    size_t wrong = 0;
  };
  Load Get(StoreClient& client, Duration timeout = seconds(10)) const {
    return GetFrom(client, 0, timeout);
  }
  // Without the first segments; what is in the load is counted from `first`.
  Load GetFrom(StoreClient& client, size_t first, Duration timeout = seconds(10)) const;

 private:
  size_t payload_bytes_;
  LayoutDigest layout_;
  NamespaceId ns_;
  std::vector<TokenId> tokens_;
  std::vector<SegmentRef> refs_;
};

}  // namespace ember::testing
