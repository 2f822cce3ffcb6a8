// KvNamespace: everything under which two blocks are interchangeable, as one canonical record.
//
// The record (format 1) is `"EMBERKV\0"`, u16 format, u16 field count, then the fields in ascending
// tag order, each as u16 tag, u8 type (1 = u64, 2 = bytes), u32 length, value; all little-endian.
// Every field is always present, so neither a moved byte nor a swapped value can make two
// identities meet. Extra fields of an engine sit under tags from 0x8000 as (name, value): unknown
// to us, yet they give another root.
#pragma once

#include <array>
#include <compare>
#include <cstring>
#include <map>
#include <string>

#include "proto/base/bytes.h"
#include "proto/model/kv_layout.h"

namespace ember {

using Sha256Digest = std::array<std::byte, 32>;

struct KvNamespace {
  std::string engine;               // "llama.cpp", "vllm"
  std::string engine_version;       // build or commit: an upgrade may change the bytes
  std::string context_type;         // engine settings that change the bytes: "kvu,fa", rope scaling
  Sha256Digest weights_digest{};    // content, never a name
  Sha256Digest tokenizer_digest{};  // zero when the tokenizer is part of the weights file
  Sha256Digest adapter_digest{};    // content of the LoRA adapter; zero for none
  KvLayout layout;
  std::string tenant;
  std::string salt;  // secret of the namespace: without it no key can be computed
  std::map<std::string, std::string> extra;

  bool operator==(const KvNamespace&) const = default;
};

// 128 bits: bytes 16..31 of SHA-256 of the record. Names a namespace in keys and metrics.
struct NamespaceId {
  std::array<std::byte, 16> bytes{};
  auto operator<=>(const NamespaceId&) const = default;
};

// What a hash chain starts from. Derived from SHA-256 of the record: bytes 0..7 (little-endian)
// seed XXH3, bytes 16..31 are the id and the first block's parent, all 32 are the proof's first
// parent.
struct NamespaceRoot {
  NamespaceId id;
  uint64_t seed = 0;  // secret: as unguessable as the salt
  Sha256Digest proof{};
};

Bytes CanonicalRecord(const KvNamespace& ns);
NamespaceRoot RootOf(const KvNamespace& ns);

// SHA-256 of a byte string (OpenSSL).
Sha256Digest Sha256(ByteSpan bytes);
// SHA-256 of a whole file; kNotFound or kUnavailable with the system's reason.
Result<Sha256Digest> Sha256OfFile(const std::string& path);

}  // namespace ember

// Uniform already, so a table may use its first bytes.
template <>
struct std::hash<ember::NamespaceId> {
  size_t operator()(const ember::NamespaceId& id) const noexcept {
    size_t v;
    std::memcpy(&v, id.bytes.data(), sizeof v);
    return v;
  }
};
