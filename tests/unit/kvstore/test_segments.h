// Segments whose every byte is a function of their key's number, so that any reader can tell right
// bytes from wrong ones without keeping them.
#pragma once

#include <string>

#include "proto/base/random.h"
#include "proto/model/segment.h"

namespace ember::kv::testing {

inline NamespaceId NamespaceOf(uint64_t number) {
  NamespaceId ns;
  const uint64_t words[2] = {1, number};
  std::memcpy(ns.bytes.data(), words, 16);
  return ns;
}

inline BlockKey KeyOf(uint64_t number, uint64_t ns = 2) {
  BlockKey key;
  SeededRandom random(number ^ 0x5eed);
  const uint64_t words[2] = {random.Next(), random.Next()};
  key.ns = NamespaceOf(ns);
  std::memcpy(key.hash.bytes.data(), words, 16);
  return key;
}

// `variant` other than 0: other bytes for the same key, as another GPU might make.
inline void FillPayload(uint64_t number, uint64_t variant, MutableByteSpan out) {
  SeededRandom random(number * 1000003 + variant + 1);
  size_t i = 0;
  for (; i + 8 <= out.size(); i += 8) {
    const uint64_t word = random.Next();
    std::memcpy(out.data() + i, &word, 8);
  }
  const uint64_t word = random.Next();
  std::memcpy(out.data() + i, &word, out.size() - i);
}

struct TestSegment {
  SegmentHeader header;
  Bytes encoded_header;
  Bytes payload;
};

inline TestSegment MakeSegment(uint64_t number, size_t length, uint64_t variant = 0) {
  TestSegment segment;
  segment.payload.resize(length);
  FillPayload(number, variant, segment.payload);
  segment.header.key = KeyOf(number);
  segment.header.placement = segment.header.key.hash;
  segment.header.block_count = 4;
  segment.header.tokens.assign(64, static_cast<TokenId>(number));
  segment.header.payload_length = length;
  segment.header.checksum = Xxh3Of(segment.payload);
  segment.header.writer = "test";
  segment.header.generation = {number, variant};
  segment.encoded_header = Encode(segment.header);
  return segment;
}

// The same bytes in another namespace, of a tenant.
inline TestSegment SegmentOf(uint64_t number, uint64_t ns, const std::string& tenant,
                             size_t length = 5000, uint64_t variant = 0) {
  TestSegment segment = MakeSegment(number, length, variant);
  segment.header.key = KeyOf(number, ns);
  segment.header.tenant = tenant;
  segment.encoded_header = Encode(segment.header);
  return segment;
}

// Whether the payload is that of one of the first `variants` variants of the number.
inline bool IsPayloadOf(uint64_t number, ByteSpan payload, uint64_t variants = 1) {
  Bytes want(payload.size());
  for (uint64_t variant = 0; variant < variants; ++variant) {
    FillPayload(number, variant, want);
    if (std::memcmp(want.data(), payload.data(), want.size()) == 0) return true;
  }
  return false;
}

}  // namespace ember::kv::testing
